// usage: clients.mjs URL CHAT TOOLS WORDS: OpenAI's client for Node against a running server, and the names of its models: one that
// chats, one that thinks and calls tools, one that embeds. What the second writes is in ../serve_models.py.
import OpenAI from "openai";
import {zodFunction, zodResponseFormat, zodResponsesFunction, zodTextFormat} from "openai/helpers/zod";
import {z} from "zod";

const [url, chat, tools, words] = process.argv.slice(2);
const client = new OpenAI({baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0});
const question = {model: chat, messages: [{role: "user", content: "Name three colours."}], temperature: 0, max_tokens: 16};
const raining = [{role: "user", content: "Is it raining?"}];
const thinking = {model: tools, messages: raining, chat_template_kwargs: {enable_thinking: true}};

const City = z.object({city: z.string()});
const Light = z.object({room: z.enum(["kitchen", "cellar"]), level: z.number().int().min(0).max(9), on: z.boolean()});
const Person = z.object({name: z.string().max(20), age: z.number().int().min(0).max(120),
                         colours: z.array(z.enum(["red", "green", "blue"])).max(3), title: z.enum(["Dr", "Sir"]).nullable()});
const weather = {name: "weather", description: "The weather in a city", parameters: City};
const calling = {model: tools, messages: raining, tools: [zodFunction(weather)]};
const forced = {model: tools, messages: raining, tools: [zodFunction({name: "Light", parameters: Light})], tool_choice: "required",
                temperature: 1};

function require(condition, seen) {
  if (!condition) throw new Error(JSON.stringify(seen));
}

function same(seen, expected) {
  require(JSON.stringify(seen) === JSON.stringify(expected), [seen, expected]);
}

async function all(stream) {
  const items = [];
  for await (const item of stream) items.push(item);
  return items;
}

const argumentsOf = (calls) => calls.map((call) => JSON.parse(call.function.arguments));

const cases = {
  async "models"() {
    same((await all(client.models.list())).map((model) => model.id), [chat, tools, words]);
    same((await client.models.retrieve(tools)).id, tools);
  },
  async "a chat completion"() {
    const answer = await client.chat.completions.create(question);
    require(answer.choices[0].message.content && answer.usage.completion_tokens <= 16, answer);
  },
  async "a stream has the text of the whole answer, and its usage"() {
    const whole = await client.chat.completions.create(question);
    const chunks = await all(await client.chat.completions.create({...question, stream: true, stream_options: {include_usage: true}}));
    same(chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join(""), whole.choices[0].message.content);
    same(chunks.at(-1).usage.completion_tokens, whole.usage.completion_tokens);
  },
  async "the helper that puts a stream together"() {
    const completion = await client.chat.completions.stream({...question, stop: [" "]}).finalChatCompletion();
    require(completion.choices[0].message.content, completion);
  },
  async "probabilities of tokens, whole and streamed"() {
    const asked = {...question, logprobs: true, top_logprobs: 2, max_tokens: 4};
    const {content} = (await client.chat.completions.create(asked)).choices[0].logprobs;
    require(content.length === 4 && content.every((token) => token.logprob <= 0 && token.top_logprobs.length === 2), content);
    const chunks = await all(await client.chat.completions.create({...asked, stream: true}));
    same(chunks.flatMap((chunk) => chunk.choices[0].logprobs?.content ?? []), content);
  },
  async "reasoning is told from the answer, whole and streamed"() {
    const {message} = (await client.chat.completions.create(thinking)).choices[0];
    same([message.reasoning_content, message.content], ["Rain?", "Yes, rain."]);
    const chunks = await all(await client.chat.completions.create({...thinking, stream: true}));
    const text = (key) => chunks.map((chunk) => chunk.choices[0].delta[key] ?? "").join("");
    same([text("reasoning_content"), text("content")], ["Rain?", "Yes, rain."]);
  },
  async "parse() makes an object of an answer by zod's schema, whole and streamed"() {
    for (const model of [chat, tools]) {
      const asked = {model, messages: raining, response_format: zodResponseFormat(Person, "person"), temperature: 1, seed: 2};
      const whole = (await client.chat.completions.parse(asked)).choices[0].message.parsed;
      Person.parse(whole);
      same((await client.chat.completions.stream(asked).finalChatCompletion()).choices[0].message.parsed, whole);
    }
  },
  async "completions, whole and streamed"() {
    const asked = {model: chat, prompt: "The sea is", temperature: 0, max_tokens: 16, logprobs: 1};
    const whole = (await client.completions.create(asked)).choices[0];
    const pieces = await all(await client.completions.create({...asked, stream: true}));
    same(pieces.map((piece) => piece.choices[0]?.text ?? "").join(""), whole.text);
    same(whole.logprobs.tokens.join(""), whole.text);
  },
  async "vectors, as lists and in base64"() {
    const input = ["a boat", "a ship"];
    const fast = await client.embeddings.create({model: words, input}); // asks for base64
    const plain = await client.embeddings.create({model: words, input, encoding_format: "float"});
    same(fast.data.map((entry) => entry.embedding.length), [48, 48]);
    require(fast.data.every((entry, i) => entry.embedding.every((x, j) => Math.abs(x - plain.data[i].embedding[j]) < 1e-7)), fast.data);
  },
  async "a response, streamed too, and its helper"() {
    const asked = {model: chat, input: "Name three colours.", temperature: 0, max_output_tokens: 16};
    const whole = await client.responses.create(asked);
    require(whole.output_text && whole.usage.output_tokens <= 16, whole);
    const events = await all(await client.responses.create({...asked, stream: true}));
    same(events.filter((event) => event.type === "response.output_text.delta").map((event) => event.delta).join(""), whole.output_text);
    same(events.map((event) => event.sequence_number), [...events.keys()]);
    const final = await client.responses.stream({...asked, max_output_tokens: 200}).finalResponse();
    require(final.status === "completed" && final.output_text.startsWith(whole.output_text), final);
  },
  async "responses.parse() makes objects of a text and of a forced call by zod's schemas"() {
    const asked = {model: tools, input: "Is it raining?", temperature: 1};
    Person.parse((await client.responses.parse({...asked, text: {format: zodTextFormat(Person, "person")}})).output_parsed);
    const light = zodResponsesFunction({name: "Light", parameters: Light});
    const answer = await client.responses.parse({...asked, tools: [light], tool_choice: "required"});
    Light.parse(answer.output.find((item) => item.type === "function_call").parsed_arguments);
  },
  async "calls in responses, streamed too, and the answer to their results"() {
    const asked = {model: tools, tools: [zodResponsesFunction(weather)]};
    const whole = await client.responses.create({...asked, input: raining});
    const final = await client.responses.stream({...asked, input: raining}).finalResponse();
    for (const answer of [whole, final]) {
      const found = answer.output.filter((item) => item.type === "function_call");
      same(found.map((call) => JSON.parse(call.arguments)), [{city: "Paris"}, {city: "Rome"}]);
      const results = found.map((call) => ({type: "function_call_output", call_id: call.call_id, output: "rain"}));
      same((await client.responses.create({...asked, input: [...raining, ...answer.output, ...results]})).output_text, "It rains there.");
    }
  },
  async "text and parallel calls, whole and streamed"() {
    const whole = (await client.chat.completions.create(calling)).choices[0];
    const streamed = (await client.chat.completions.stream(calling).finalChatCompletion()).choices[0];
    for (const choice of [whole, streamed]) {
      same([choice.message.content.trim(), choice.finish_reason], ["I ask.", "tool_calls"]);
      same(argumentsOf(choice.message.tool_calls), [{city: "Paris"}, {city: "Rome"}]);
    }
  },
  async "runTools() calls functions until the model has its answer, whole and streamed"() {
    for (const stream of [false, true]) {
      const cities = [];
      const run = ({city}) => void cities.push(city) ?? "rain";
      const runner = client.chat.completions.runTools({...calling, stream, tools: [zodFunction({...weather, function: run})]});
      same(await runner.finalContent(), "It rains there.");
      same(cities, ["Paris", "Rome"]);
    }
  },
  async "tool_choice \"required\" gives calls that parse() makes objects of, whole and streamed"() {
    for (const seed of [1, 2, 3]) {
      const {message} = (await client.chat.completions.parse({...forced, seed})).choices[0];
      const lights = message.tool_calls.map((call) => Light.parse(call.function.parsed_arguments));
      const streamed = (await client.chat.completions.stream({...forced, seed}).finalChatCompletion()).choices[0].message;
      same(streamed.tool_calls.map((call) => call.function.parsed_arguments), lights);
    }
  },
  async "errors are the client's own types"() {
    const unknown = await client.chat.completions.create({...question, model: "nothing"}).catch((problem) => problem);
    require(unknown instanceof OpenAI.NotFoundError && unknown.message.includes("nothing"), String(unknown));
    const wrong = await client.chat.completions.create({...question, temperature: -1}).catch((problem) => problem);
    require(wrong instanceof OpenAI.BadRequestError && wrong.param === "temperature", String(wrong));
    const mute = await client.embeddings.create({model: chat, input: "a boat"}).catch((problem) => problem);
    require(mute instanceof OpenAI.BadRequestError && mute.code === "model_cannot_embed", String(mute));
  },
  async "a client that leaves in the middle of a stream disturbs nobody"() {
    const stream = await client.chat.completions.create({...question, max_tokens: 200, stream: true});
    for await (const _ of stream) break;
    require((await client.chat.completions.create(question)).choices[0].message.content, "no answer afterwards");
  },
};

for (const [name, run] of Object.entries(cases)) {
  const problem = await run().then(() => null, (error) => String(error).slice(0, 600));
  console.log(JSON.stringify({case: `openai (Node): ${name}`, problem}));
}
process.exit(0);
