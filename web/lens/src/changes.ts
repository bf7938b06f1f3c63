// What changed between two files, by layer and by value.

import type { Archive, DiffEntry, DiffKind, TensorInfo } from './engine.ts';
import { placeOf } from './layers.ts';

export const kKinds: readonly (readonly [DiffKind, string])[] = [
  ['changed', 'changed'], ['transposed', 'transposed'], ['renamed', 'renamed'], ['only_in_a', 'only in the first'], ['only_in_b', 'only in the second'], ['same', 'the same'],
];

export function countKinds(entries: readonly DiffEntry[]): Map<DiffKind, number> {
  const counts = new Map<DiffKind, number>();
  for (const { kind } of entries) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return counts;
}

export interface LayerChange {
  layer: number;
  tensors: number;
  elements: number;
  differing: number;
  maxAbs: number;
}

// Of the layers that names tell, in their order; tensors outside of layers are left out.
export function profile(entries: readonly DiffEntry[], tensors: ReadonlyMap<string, TensorInfo>): LayerChange[] {
  const layers = new Map<number, LayerChange>();
  for (const { kind, nameA, change } of entries) {
    const { layer } = placeOf(nameA);
    if (layer === null || kind === 'only_in_a' || kind === 'only_in_b') continue;
    const sum = layers.get(layer) ?? { layer, tensors: 0, elements: 0, differing: 0, maxAbs: 0 };
    ++sum.tensors;
    sum.elements += change?.elements ?? tensors.get(nameA)?.elements ?? 0;
    sum.differing += change?.differing ?? 0;
    sum.maxAbs = Math.max(sum.maxAbs, change?.maxAbs ?? 0);
    layers.set(layer, sum);
  }
  return [...layers.values()].sort((a, b) => a.layer - b.layer);
}

const kPiece = 1 << 20; // elements that are compared at a time
export const kMostCompared = 1 << 26;

export interface Differences {
  counts: number[];
  edges: number[];
  unchanged: number; // which are in no bin
  notFinite: number;
}

// b - a, value by value, in bins over ±`limit`.
export async function differences(a: Archive, b: Archive, entry: DiffEntry, limit: number, bins: number, signal: AbortSignal): Promise<Differences> {
  const tensor = a.tensors.find(({ name }) => name === entry.nameA)!;
  const counts = new Array<number>(bins).fill(0);
  let unchanged = 0;
  let notFinite = 0;
  for await (const [before, after] of pieces(a, b, entry, tensor, signal)) {
    for (let at = 0; at < before.length; ++at) {
      if (Object.is(before[at], after[at])) {
        ++unchanged;
        continue;
      }
      const change = after[at]! - before[at]!;
      if (!Number.isFinite(change)) ++notFinite;
      else ++counts[Math.max(0, Math.min(bins - 1, Math.floor(((change / limit + 1) / 2) * bins)))]!;
    }
  }
  return { counts, edges: Array.from({ length: bins + 1 }, (_, at) => limit * ((2 * at) / bins - 1)), unchanged, notFinite };
}

async function* pieces(a: Archive, b: Archive, entry: DiffEntry, { shape, elements }: TensorInfo, signal: AbortSignal): AsyncGenerator<[ArrayLike<number>, ArrayLike<number>]> {
  const rows = shape[0] ?? 1;
  const step = Math.max(1, Math.floor(kPiece / Math.max(1, elements / rows)));
  for (let begin = 0; begin < rows; begin += step) {
    const ranges = shape.length === 0 ? [] : [{ begin, end: Math.min(rows, begin + step) }];
    const before = await a.values(entry.nameA, ranges, { signal });
    const after = await b.values(entry.nameB, ranges, { signal });
    yield [before.values, after.values];
  }
}
