import assert from 'node:assert/strict';
import { test } from 'node:test';

import { countKinds, differences, profile } from '../src/changes.ts';
import type { DiffEntry } from '../src/engine.ts';
import { fakeArchive } from './fake_archive.ts';

const change = (differing: number, maxAbs: number) => ({ elements: 4, differing, maxAbs, maxRel: 0, maxUlp: 0, withinTolerance: false });
const entry = (kind: DiffEntry['kind'], nameA: string, nameB: string, measured?: DiffEntry['change']): DiffEntry =>
  ({ kind, nameA, nameB, note: '', ...(measured === undefined ? {} : { change: measured }) });

test('the profile follows the layers that names tell, and leaves out what is in one file only', () => {
  const archive = fakeArchive([{ name: 'h.1.w', shape: [4], values: [0, 0, 0, 0] }]);
  const layers = profile([entry('changed', 'h.10.w', 'h.10.w', change(4, 2)), entry('changed', 'h.2.w', 'h.2.w', change(1, 0.5)), entry('changed', 'h.2.b', 'h.2.b', change(2, 3)),
    entry('same', 'h.1.w', 'h.1.w'), entry('only_in_a', 'h.3.w', ''), entry('changed', 'embed', 'embed', change(4, 9))],
  new Map(archive.tensors.map((tensor) => [tensor.name, tensor])));
  assert.deepEqual(layers.map(({ layer, differing, elements, maxAbs }) => [layer, differing, elements, maxAbs]), [[1, 0, 4, 0], [2, 3, 8, 3], [10, 4, 4, 2]]);
});

test('differences are counted around zero, whatever the name in the other file', async () => {
  const a = fakeArchive([{ name: 'w', shape: [2, 3], values: [0, 0, 0, 1, 1, 1] }]);
  const b = fakeArchive([{ name: 'v', shape: [2, 3], values: [-2, 0, 2, 1, NaN, 2] }]);
  const { counts, edges, unchanged, notFinite } = await differences(a, b, entry('changed', 'w', 'v', change(4, 2)), 2, 5, new AbortController().signal);
  assert.deepEqual(counts, [1, 0, 0, 1, 1]);
  assert.deepEqual([edges[0], edges[5]], [-2, 2]);
  assert.deepEqual([unchanged, notFinite], [2, 1]);
});

test('kinds are counted', () => {
  assert.deepEqual([...countKinds([entry('same', 'a', 'a'), entry('same', 'b', 'b'), entry('renamed', 'c', 'd')])], [['same', 2], ['renamed', 1]]);
});
