// As much of an archive as the code without a page asks for: tensors of numbers in memory.

import type { Archive, AxisRange, TensorInfo } from '../src/engine.ts';

export interface FakeTensor {
  name: string;
  shape: number[];
  values: number[];
}

export function fakeArchive(tensors: readonly FakeTensor[]): Archive & { asked: number } {
  const archive = {
    asked: 0, // values that were read
    tensors: tensors.map(({ name, shape, values }): TensorInfo => ({ name, dtype: 'f32', shape, elements: values.length, bytes: values.length * 4,
      offset: 0, file: 0, storedBytes: values.length * 4, deflated: false, numeric: true })),
    values(name: string, ranges: readonly AxisRange[] = []) {
      const { shape, values } = tensors.find((tensor) => tensor.name === name)!;
      let picked = [0];
      shape.forEach((size, axis) => {
        const range = ranges[axis] ?? {};
        const { begin = 0, end = size, step = 1 } = typeof range === 'number' ? { begin: range, end: range + 1 } : range;
        if (begin < 0 || end > size || step < 1) return void (picked = []);
        const along = Array.from({ length: Math.ceil((end - begin) / step) }, (_, at) => begin + at * step);
        picked = picked.flatMap((base) => along.map((at) => base * size + at));
      });
      archive.asked += picked.length;
      return Promise.resolve({ shape: [picked.length], dtype: 'f32', values: Float32Array.from(picked, (at) => values[at]!) });
    },
  };
  return archive as unknown as Archive & { asked: number };
}

export function counting(length: number): number[] {
  return Array.from({ length }, (_, at) => at);
}
