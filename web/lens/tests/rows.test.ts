import assert from 'node:assert/strict';
import { test } from 'node:test';

import { arrange, compilePattern, totalsOf, type Row } from '../src/rows.ts';

const rows: Row[] = ['layers.10.w', 'layers.2.w', 'embed', 'layers.2.b'].map((name, at) => ({
  name, dtype: at === 2 ? 'bf16' : 'f32', shape: at === 2 ? [8] : [2, at + 1], elements: at === 2 ? 8 : 2 * (at + 1), bytes: at === 2 ? 16 : 8 * (at + 1),
}));
const all = compilePattern('');
const names = (indices: readonly number[]): string[] => indices.map((at) => rows[at]!.name);

test('rows keep the order of the file until a column is chosen', () => {
  assert.deepEqual(arrange(rows, all, { column: 'order', descending: false }), [0, 1, 2, 3]);
  assert.deepEqual(arrange(rows, all, { column: 'order', descending: true }), [3, 2, 1, 0]);
});

test('numbers in names sort as numbers', () => {
  assert.deepEqual(names(arrange(rows, all, { column: 'name', descending: false })), ['embed', 'layers.2.b', 'layers.2.w', 'layers.10.w']);
});

test('shapes sort by rank and then by dimension', () => {
  assert.deepEqual(names(arrange(rows, all, { column: 'shape', descending: false })), ['embed', 'layers.10.w', 'layers.2.w', 'layers.2.b']);
});

test('a pattern keeps what matches, and one that is no regular expression says so and keeps everything', () => {
  assert.deepEqual(names(arrange(rows, compilePattern('^layers\\.2\\.'), { column: 'order', descending: false })), ['layers.2.w', 'layers.2.b']);
  const broken = compilePattern('(');
  assert.match(broken.problem ?? '', /regular expression/);
  assert.equal(arrange(rows, broken, { column: 'order', descending: false }).length, 4);
});

test('totals add up what is selected', () => {
  assert.deepEqual(totalsOf(rows, [0, 2]), { tensors: 2, elements: 10, bytes: 24 });
  assert.deepEqual(totalsOf(rows, []), { tensors: 0, elements: 0, bytes: 0 });
});
