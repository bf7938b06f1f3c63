import assert from 'node:assert/strict';
import { test } from 'node:test';

import { ApiError, type Client, type Piece } from '../src/client.ts';
import { makeMessage } from '../src/conversation.ts';
import { Generation } from '../src/generation.ts';
import { contextText, statsText, tokensPerSecond } from '../src/stats.ts';

const kEmpty: Piece = { content: '', reasoning: '', finish: '', usage: null };

// A server that gives these pieces, 100 ms apart, and then ends or fails.
function run(pieces: Partial<Piece>[], failure: Error | null = null) {
  let time = 1000;
  const message = makeMessage('assistant', '');
  message.state = 'streaming';
  message.model = 'm';
  let changes = 0;
  const generation = new Generation(message, () => { ++changes; }, () => time);
  const client = {
    chat: async (_body: unknown, signal: AbortSignal, take: (piece: Piece) => void) => {
      for (const piece of pieces) {
        await null;
        time += 100;
        take({ ...kEmpty, ...piece });
        if (signal.aborted) throw new DOMException('stopped', 'AbortError');
      }
      if (failure !== null) throw failure;
    },
  } as unknown as Client;
  return { message, generation, done: generation.run(client, { model: 'm', messages: [] }), changed: () => changes };
}

test('an answer is put together, with its times and counts', async () => {
  const { message, done, changed } = run([{}, { content: 'a' }, { content: 'b', reasoning: 'r' }, { content: 'c' }, { finish: 'stop' },
    { usage: { promptTokens: 1200, cachedTokens: 8, answerTokens: 3 } }]);
  assert.equal(await done, null);
  assert.equal(message.content, 'abc');
  assert.equal(message.reasoning, 'r');
  assert.equal(message.state, 'complete');
  assert.deepEqual(message.stats, { promptTokens: 1200, cachedTokens: 8, answerTokens: 3, firstTokenMs: 200, answerMs: 200 });
  assert.equal(tokensPerSecond(message.stats!), 10);
  assert.equal(statsText(message), 'm · 1,200 prompt tokens (8 cached) · 3 answer tokens · 10.0 tokens/s · first token after 0.20 s');
  assert.equal(contextText([message], 2048), '1,203 of 2,048 context tokens used');
  assert.equal(contextText([message], null), '1,203 tokens used');
  assert.equal(changed(), 6);
});

test('a failure keeps what came and is handed on', async () => {
  const { message, done } = run([{ content: 'half' }], new ApiError('key', 'no key'));
  assert.equal((await done)?.failure, 'key');
  assert.equal(message.content, 'half');
  assert.equal(message.state, 'failed');
  assert.equal(message.error, 'no key');
});

test('stopping is no failure', async () => {
  const { message, generation, done } = run([{ content: 'half' }, { content: ' more' }]);
  generation.stop();
  assert.equal(await done, null);
  assert.equal(message.state, 'stopped');
  assert.equal(message.error, '');
});

test('speed needs two tokens and a time between them', () => {
  const stats = { promptTokens: null, cachedTokens: null, answerTokens: 1, firstTokenMs: 5, answerMs: 0 };
  assert.equal(tokensPerSecond(stats), null);
  assert.equal(tokensPerSecond({ ...stats, answerTokens: 5 }), null);
  assert.equal(statsText(makeMessage('assistant', 'x')), '');
  assert.equal(contextText([], 10), '');
});
