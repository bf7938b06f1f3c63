import assert from 'node:assert/strict';
import { test } from 'node:test';

import { SseParser } from '../src/sse.ts';

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);

function parsed(pieces: Uint8Array[]): string[] {
  const parser = new SseParser();
  return pieces.flatMap((piece) => parser.push(piece));
}

const kEvents = ['{"a":"é😀"}', 'two\nlines', '[DONE]'];

for (const [name, end] of [['LF', '\n'], ['CRLF', '\r\n'], ['CR', '\r']] as const) {
  test(`a stream with ${name} may be cut at every byte`, () => {
    const stream = encode([': ping', '', 'event: x', 'data: {"a":"é😀"}', '', 'id: 1', 'data:two', 'data: lines', '', '', 'data: [DONE]', '', ''].join(end));
    assert.deepEqual(parsed([stream]), kEvents);
    for (let cut = 0; cut <= stream.length; ++cut) assert.deepEqual(parsed([stream.slice(0, cut), stream.slice(cut)]), kEvents, `cut at ${cut}`);
    assert.deepEqual(parsed(Array.from(stream, (byte) => Uint8Array.of(byte))), kEvents);
  });
}

test('an event without its blank line is not given out', () => {
  assert.deepEqual(parsed([encode('data: a\n\ndata: b\n')]), ['a']);
});

test('comments and empty events say nothing', () => {
  assert.deepEqual(parsed([encode(': ping\n\nretry: 5\n\nevent: x\n\n')]), []);
  assert.deepEqual(parsed([encode('data:\n\n')]), ['']);
});

test('only one space after the colon belongs to the field', () => {
  assert.deepEqual(parsed([encode('data:  x \n\ndatax: y\n\n')]), [' x ']);
});

test('a character that is not UTF-8 does not end the stream', () => {
  assert.deepEqual(parsed([Uint8Array.of(...encode('data: '), 0xff, 10, 10)]), ['\ufffd']);
});

test('an event without an end is refused before it fills the memory', () => {
  const parser = new SseParser();
  const piece = encode('x'.repeat(1024 * 1024));
  assert.throws(() => {
    for (let i = 0; i < 20; ++i) parser.push(piece);
  }, /one event of more than/);
});
