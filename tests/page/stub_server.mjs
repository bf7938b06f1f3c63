// A server with scripted answers, for what no real model can be made to say: hostile Markdown, a connection that breaks,
// a queue that is full. It serves the built page under the policy that `ballast serve` sends.

import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

const kPage = new URL('../../apps/ballast/server/page/', import.meta.url);
const kFiles = {
  '/': ['index.html', 'text/html; charset=utf-8'],
  '/app.js': ['app.js', 'text/javascript; charset=utf-8'],
  '/style.css': ['style.css', 'text/css; charset=utf-8'],
  '/icon.svg': ['icon.svg', 'image/svg+xml'],
};
const kPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
  + "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const kLongAnswer = `## Three ways to sort a list

1. **Built in**: \`sorted(values)\` returns a new list.
2. **In place**: \`values.sort()\` changes the list.
3. **By hand**, for instance like this:

\`\`\`python
def insertion_sort(values):
    """Sorts in place; fast for short lists."""
    for i in range(1, len(values)):
        j = i
        while j > 0 and values[j - 1] > values[j]:
            values[j - 1], values[j] = values[j], values[j - 1]
            j -= 1
    return values  # for convenience
\`\`\`

| method | extra memory | worst case |
|---|---|---:|
| sorted | n | n log n |
| sort | n / 2 | n log n |
| by hand | 1 | n² |

> Prefer the built-in ways: see [the documentation](https://docs.python.org/3/howto/sorting.html).
`;

function chunk(delta, finish = null) {
  return `data: ${JSON.stringify({ id: 'chatcmpl-1', object: 'chat.completion.chunk', created: 1, model: 'stub', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
}

function pieces(text, size = 7) {
  return Array.from({ length: Math.ceil(text.length / size) }, (_, index) => text.slice(index * size, (index + 1) * size));
}

// What is answered to a question: the text, and how it comes.
function scriptFor(body) {
  const question = body.messages.at(-1).content;
  if (body.response_format) return { text: '{"title":"A <b>title</b>","tags":["x"]}', delay: 5 };
  if (question.startsWith('echo: ')) return { text: question.slice(6), delay: 5 };
  if (question.startsWith('slow')) return { text: 'word '.repeat(2000), delay: 30 };
  if (question.startsWith('cut')) return { text: 'The beginning of an answer that is never compl', delay: 5, isCut: true };
  if (question.startsWith('fail')) return { text: 'Half an ans', delay: 5, error: 'the device ran out of memory' };
  if (question.includes('sort a list')) return { text: kLongAnswer, delay: 5 };
  return { text: `Answer to “${question}” with ${body.messages.length} messages.`, delay: 5 };
}

export class StubServer {
  requests = []; // bodies of the chat requests
  paths = new Set(); // every path that was asked for
  key = ''; // if not empty, the only key that is accepted
  refusal = null; // {status, headers, message} for the next chat request
  disconnects = 0; // clients that left in the middle of an answer
  lastPiece = Promise.resolve(); // what the last piece of an answer waits for

  async start() {
    this.server = createServer((request, response) => {
      this.answer(request, response).catch(() => response.destroy());
    });
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}/`;
    return this;
  }

  stop() {
    this.server.closeAllConnections();
    this.server.close();
  }

  async answer(request, response) {
    this.paths.add(request.url);
    const file = kFiles[request.url];
    if (file !== undefined) {
      response.writeHead(200, { 'Content-Type': file[1], 'Content-Security-Policy': kPolicy, 'X-Content-Type-Options': 'nosniff' });
      response.end(readFileSync(new URL(file[0], kPage)));
      return;
    }
    if (this.key !== '' && request.headers.authorization !== `Bearer ${this.key}`) this.refuse(response, 401, 'This server asks for an API key.');
    else if (request.url === '/v1/models') this.json(response, { object: 'list', data: [
      { id: 'words', capabilities: ['embedding'] }, { id: 'stub', capabilities: ['completion', 'chat'] }, { id: 'other' },
    ] });
    else if (request.url === '/props') this.json(response, { default_generation_settings: { n_ctx: 4096 } });
    else if (request.url === '/v1/chat/completions') await this.chat(request, response);
    else this.refuse(response, 404, `There is no ${request.url}.`);
  }

  json(response, value) {
    response.writeHead(200, { 'Content-Type': 'application/json' });
    response.end(JSON.stringify(value));
  }

  refuse(response, status, message, headers = {}) {
    response.writeHead(status, { 'Content-Type': 'application/json', ...headers });
    response.end(JSON.stringify({ error: { message, type: 'error', param: null, code: null } }));
  }

  async chat(request, response) {
    let text = '';
    for await (const part of request) text += part;
    const body = JSON.parse(text);
    this.requests.push(body);
    const { refusal } = this;
    this.refusal = null;
    if (refusal !== null) this.refuse(response, refusal.status, refusal.message, refusal.headers);
    else await this.stream(response, scriptFor(body), body);
  }

  async stream(response, script, body) {
    let isGone = false;
    response.on('close', () => { isGone = !response.writableFinished; });
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    response.write(chunk({ role: 'assistant', content: '' }));
    const parts = pieces(script.text);
    for (const [index, part] of parts.entries()) {
      await sleep(script.delay);
      if (index === parts.length - 1) await this.lastPiece;
      if (isGone) {
        ++this.disconnects;
        return;
      }
      response.write(chunk({ content: part }));
    }
    if (script.isCut) {
      await sleep(100);
      response.destroy();
      return;
    }
    if (script.error !== undefined) {
      response.end(`data: ${JSON.stringify({ error: { message: script.error } })}\n\n`);
      return;
    }
    response.write(chunk({}, 'stop'));
    const usage = { prompt_tokens: 20 + body.messages.length, completion_tokens: parts.length, prompt_tokens_details: { cached_tokens: 16 } };
    response.write(`data: ${JSON.stringify({ object: 'chat.completion.chunk', choices: [], usage })}\n\n`);
    response.end('data: [DONE]\n\n');
  }
}
