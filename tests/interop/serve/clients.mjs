// usage: clients.mjs URL MODEL: OpenAI's client for Node against a running server.
import OpenAI from "openai";

const [url, model] = process.argv.slice(2);
const client = new OpenAI({baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0});
const question = {model, messages: [{role: "user", content: "Name three colours."}], temperature: 0, max_tokens: 16};

function require(condition, text) {
  if (!condition) throw new Error(text);
}

const cases = {
  async "openai (Node): a chat completion"() {
    const answer = await client.chat.completions.create(question);
    require(answer.choices[0].message.content, JSON.stringify(answer));
    require(answer.usage.completion_tokens <= 16, JSON.stringify(answer.usage));
  },
  async "openai (Node): a stream has the text of the whole answer"() {
    const whole = await client.chat.completions.create(question);
    let text = "";
    for await (const chunk of await client.chat.completions.create({...question, stream: true}))
      text += chunk.choices[0]?.delta.content ?? "";
    require(text === whole.choices[0].message.content, JSON.stringify([text, whole.choices[0].message.content]));
  },
  async "openai (Node): the helper that puts a stream together"() {
    const completion = await client.chat.completions.stream({...question, stop: [" "]}).finalChatCompletion();
    require(completion.choices[0].message.content, JSON.stringify(completion));
  },
  async "openai (Node): an unknown model is a NotFoundError"() {
    const error = await client.chat.completions.create({...question, model: "nothing"}).catch((problem) => problem);
    require(error instanceof OpenAI.NotFoundError && error.message.includes("nothing"), String(error));
  },
};

for (const [name, run] of Object.entries(cases)) {
  const problem = await run().then(() => null, (error) => String(error));
  console.log(JSON.stringify({case: name, problem}));
}
process.exit(0);
