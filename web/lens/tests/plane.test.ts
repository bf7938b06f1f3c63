import assert from 'node:assert/strict';
import { test } from 'node:test';

import { firstAxes, indexOf, planeOf } from '../src/plane.ts';
import { counting, fakeArchive } from './fake_archive.ts';

const signal = new AbortController().signal;

test('a matrix is read by rows and columns, and nothing else of it', async () => {
  const archive = fakeArchive([{ name: 'm', shape: [10, 8], values: counting(80) }]);
  const plane = planeOf(archive, archive.tensors[0]!, firstAxes([10, 8]));
  const patch = await plane.read({ row: 2, column: 3, rows: 2, columns: 3, step: 1 }, signal);
  assert.deepEqual([...patch.values], [19, 20, 21, 27, 28, 29]);
  assert.equal(archive.asked, 6);
});

test('where pixels are fewer than values, every n-th is read', async () => {
  const archive = fakeArchive([{ name: 'm', shape: [10, 8], values: counting(80) }]);
  const patch = await planeOf(archive, archive.tensors[0]!, firstAxes([10, 8])).read({ row: 0, column: 0, rows: 10, columns: 8, step: 4 }, signal);
  assert.deepEqual([patch.height, patch.width], [3, 2]);
  assert.deepEqual([...patch.values], [0, 4, 32, 36, 64, 68]);
});

test('of four dimensions any two are rows and columns, also in the other order', async () => {
  const shape = [2, 3, 4, 5];
  const archive = fakeArchive([{ name: 't', shape, values: counting(120) }]);
  const at = (a: number, b: number, c: number, d: number): number => ((a * 3 + b) * 4 + c) * 5 + d;
  const plane = planeOf(archive, archive.tensors[0]!, { rows: 3, columns: 1, fixed: [1, 0, 2, 0] });
  assert.deepEqual([plane.rows, plane.columns], [5, 3]);
  const patch = await plane.read({ row: 1, column: 0, rows: 2, columns: 3, step: 1 }, signal);
  assert.deepEqual([...patch.values], [at(1, 0, 2, 1), at(1, 1, 2, 1), at(1, 2, 2, 1), at(1, 0, 2, 2), at(1, 1, 2, 2), at(1, 2, 2, 2)]);
  assert.deepEqual(plane.position(4, 2), [1, 2, 2, 4]);
});

test('a vector is folded, and its last row ends where it ends', async () => {
  const archive = fakeArchive([{ name: 'v', shape: [100], values: counting(100) }]);
  const plane = planeOf(archive, archive.tensors[0]!, firstAxes([100]));
  assert.deepEqual([plane.rows, plane.columns], [7, 16]);
  assert.equal(plane.has(6, 3), true);
  assert.equal(plane.has(6, 4), false);
  const patch = await plane.read({ row: 5, column: 14, rows: 2, columns: 2, step: 1 }, signal);
  assert.deepEqual([...patch.values], [94, 95, NaN, NaN]);
  assert.deepEqual(plane.position(6, 3), [99]);
});

test('short vectors are one row, and a scalar is one cell', async () => {
  const archive = fakeArchive([{ name: 'v', shape: [5], values: counting(5) }, { name: 's', shape: [], values: [7] }]);
  const vector = planeOf(archive, archive.tensors[0]!, firstAxes([5]));
  assert.deepEqual([vector.rows, vector.columns], [1, 5]);
  assert.deepEqual([...(await vector.read({ row: 0, column: 1, rows: 1, columns: 4, step: 2 }, signal)).values], [1, 3]);
  const scalar = planeOf(archive, archive.tensors[1]!, firstAxes([]));
  assert.deepEqual([...(await scalar.read({ row: 0, column: 0, rows: 1, columns: 1, step: 1 }, signal)).values], [7]);
  assert.deepEqual(scalar.position(0, 0), []);
});

test('a position in a payload is one index for each dimension', () => {
  assert.deepEqual(indexOf([2, 3, 4], 23), [1, 2, 3]);
  assert.deepEqual(indexOf([2, 3, 4], 5), [0, 1, 1]);
  assert.deepEqual(indexOf([], 0), []);
});
