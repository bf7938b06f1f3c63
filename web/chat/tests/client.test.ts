import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ApiError, Client, type Fetch, type Piece, readPiece, retryAfterSeconds } from '../src/client.ts';

function streamOf(pieces: string[], failure?: Error): ReadableStream<Uint8Array> {
  let next = 0;
  return new ReadableStream({
    pull(controller) {
      if (next < pieces.length) controller.enqueue(new TextEncoder().encode(pieces[next++]));
      else if (failure !== undefined) controller.error(failure);
      else controller.close();
    },
  });
}

const chunk = (delta: object, finish: string | null = null): string =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
const kUsage = 'data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":4}}}\n\n';

function clientFor(response: () => Response | Promise<Response>, seen: { url: string; init: RequestInit }[] = [], key = ''): Client {
  const fetcher = (async (url: string, init: RequestInit) => {
    seen.push({ url, init });
    return response();
  }) as unknown as Fetch;
  return new Client('http://h/', () => key, fetcher);
}

async function chat(client: Client): Promise<{ pieces: Piece[]; error: unknown }> {
  const pieces: Piece[] = [];
  try {
    await client.chat({ model: 'm', messages: [] }, new AbortController().signal, (piece) => pieces.push(piece));
    return { pieces, error: null };
  } catch (error) {
    return { pieces, error };
  }
}

const eventStream = (body: ReadableStream<Uint8Array>): Response => new Response(body, { headers: { 'Content-Type': 'text/event-stream' } });
const textOf = (pieces: Piece[]): string => pieces.map((piece) => piece.content).join('');

test('an answer arrives in pieces, with its counts at the end', async () => {
  const seen: { url: string; init: RequestInit }[] = [];
  const { pieces, error } = await chat(clientFor(() => eventStream(streamOf([
    chunk({ role: 'assistant', content: '' }), chunk({ content: 'Hel' }), chunk({ content: 'lo', reasoning_content: 'hm' }), chunk({}, 'stop'), kUsage, 'data: [DONE]\n\n',
  ])), seen, 'secret'));
  assert.equal(error, null);
  assert.equal(textOf(pieces), 'Hello');
  assert.deepEqual(pieces.at(-1)!.usage, { promptTokens: 5, cachedTokens: 4, answerTokens: 2 });
  assert.equal(pieces.some((piece) => piece.reasoning === 'hm'), true);
  assert.equal(seen[0]!.url, 'http://h/v1/chat/completions');
  assert.equal(new Headers(seen[0]!.init.headers).get('Authorization'), 'Bearer secret');
});

test('what came before a cut is kept, and the cut is told', async () => {
  for (const stream of [streamOf([chunk({ content: 'Hel' })]), streamOf([chunk({ content: 'Hel' })], new TypeError('network error'))]) {
    const { pieces, error } = await chat(clientFor(() => eventStream(stream)));
    assert.equal(textOf(pieces), 'Hel');
    assert.ok(error instanceof ApiError && error.failure === 'cut');
  }
});

test('an error in the middle of a stream is shown as its message', async () => {
  const { pieces, error } = await chat(clientFor(() => eventStream(streamOf([chunk({ content: 'Hel' }), 'data: {"error":{"message":"out of memory"}}\n\n']))));
  assert.equal(textOf(pieces), 'Hel');
  assert.ok(error instanceof ApiError && error.message === 'out of memory');
});

test('refusals are told with what the server says', async () => {
  const answer = (status: number, body: string, headers: Record<string, string> = {}) => clientFor(() => new Response(body, { status, headers }));
  const cases: [Client, string, RegExp, number | null][] = [
    [answer(401, '{"error":{"message":"no key"}}'), 'key', /^no key$/, null],
    [answer(429, '{"error":{"message":"queue full"}}', { 'Retry-After': '7' }), 'busy', /busy: queue full.*again in 7 s/, 7],
    [answer(503, 'loading'), 'unavailable', /unavailable: loading/, null],
    [answer(400, '{"error":{"message":"schema: unknown keyword"}}'), 'refused', /^schema: unknown keyword$/, null],
    [answer(404, '{"error":"no such model"}'), 'refused', /^no such model$/, null],
    [answer(500, ''), 'server', /status 500/, null],
    [clientFor(() => Promise.reject(new TypeError('fetch failed'))), 'network', /cannot be reached/, null],
    [clientFor(() => new Response('{}', { headers: { 'Content-Type': 'application/json' } })), 'server', /application\/json where a stream/, null],
  ];
  for (const [client, failure, message, wait] of cases) {
    const { error } = await chat(client);
    assert.ok(error instanceof ApiError, String(error));
    assert.equal(error.failure, failure);
    assert.match(error.message, message);
    assert.equal(error.retryAfterSeconds, wait);
  }
});

test('an answer that was stopped says so by an AbortError', async () => {
  const abort = new DOMException('stopped', 'AbortError');
  const { error } = await chat(clientFor(() => eventStream(streamOf([chunk({ content: 'a' })], abort as unknown as Error))));
  assert.equal((error as Error).name, 'AbortError');
});

test('strange chunks do no harm', () => {
  for (const data of ['{}', '{"choices":null}', '{"choices":[null]}', '{"choices":[{"delta":{"content":5}}]}', '[]', '5', 'null']) {
    assert.deepEqual(readPiece(data), { content: '', reasoning: '', finish: '', usage: null }, data);
  }
  assert.throws(() => readPiece('<html>'), /not JSON/);
});

test('only models that can chat are offered', async () => {
  const offered = (...data: unknown[]): Promise<string[]> => clientFor(() => Response.json({ data })).models();
  const embedder = { id: 'words', capabilities: ['embedding'] };
  const plain = { id: 'plain', capabilities: ['completion'] };
  assert.deepEqual(await offered(embedder, { id: 'a', capabilities: ['completion', 'chat'] }, plain), ['a']);
  assert.deepEqual(await offered(embedder, { id: 'unknown' }, { id: 'strange', capabilities: 'all' }), ['unknown', 'strange']);
  await assert.rejects(offered(embedder, plain), /None of the models on this server can chat/);
  assert.deepEqual(await offered(), []);
});

test('models and facts', async () => {
  const models = clientFor(() => Response.json({ data: [{ id: 'a' }, { id: 5 }, null, { id: 'b' }] }));
  assert.deepEqual(await models.models(), ['a', 'b']);
  await assert.rejects(clientFor(() => Response.json({})).models(), /without a list/);
  assert.deepEqual(await clientFor(() => Response.json({ model_alias: 'm', default_generation_settings: { n_ctx: 2048 } })).facts(), { model: 'm', contextTokens: 2048 });
  assert.deepEqual(await clientFor(() => new Response('', { status: 404 })).facts(), { model: '', contextTokens: null });
});

test('Retry-After is read as seconds or as a date', () => {
  assert.equal(retryAfterSeconds('12'), 12);
  assert.equal(retryAfterSeconds(null), null);
  assert.equal(retryAfterSeconds('soon'), null);
  assert.equal(retryAfterSeconds('Thu, 01 Jan 1970 00:01:00 GMT', 30_000), 30);
});
