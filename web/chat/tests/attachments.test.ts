import assert from 'node:assert/strict';
import { test } from 'node:test';

import { type TextFile, kMaxFileBytes, kMaxFiles, readAttachments } from '../src/attachments.ts';

function file(name: string, bytes: number[] | string, size?: number): TextFile {
  const data = typeof bytes === 'string' ? new TextEncoder().encode(bytes) : Uint8Array.from(bytes);
  return { name, size: size ?? data.length, arrayBuffer: async () => data.buffer as ArrayBuffer };
}

test('text is taken as it is', async () => {
  assert.deepEqual(await readAttachments([file('a.txt', 'é\n')], []), { added: [{ name: 'a.txt', text: 'é\n' }], problems: [] });
});

test('what is not UTF-8 text is refused, and the rest is still taken', async () => {
  const { added, problems } = await readAttachments([file('a.bin', [0xff, 0xfe]), file('b.bin', [65, 0, 66]), file('c.txt', 'x')], []);
  assert.deepEqual(added.map(({ name }) => name), ['c.txt']);
  assert.deepEqual(problems, ['a.bin is not a text file in UTF-8.', 'b.bin is not a text file in UTF-8.']);
});

test('a large file is not even read', async () => {
  const large: TextFile = { name: 'l', size: kMaxFileBytes + 1, arrayBuffer: () => { throw new Error('it was read'); } };
  const { added, problems } = await readAttachments([large], []);
  assert.deepEqual(added, []);
  assert.match(problems[0]!, /is 257 KiB; the limit is 256 KiB/);
});

test('files are bounded in number and in total', async () => {
  const many = Array.from({ length: kMaxFiles + 1 }, (_, index) => file(`${index}`, 'x'));
  assert.equal((await readAttachments(many, [])).added.length, kMaxFiles);
  const big = Array.from({ length: 5 }, (_, index) => file(`${index}`, 'x'.repeat(kMaxFileBytes)));
  const { added, problems } = await readAttachments(big, []);
  assert.equal(added.length, 4);
  assert.match(problems[0]!, /1024 KiB in total/);
  assert.equal((await readAttachments([file('a', 'x')], added)).added.length, 0);
});
