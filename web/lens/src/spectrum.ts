// What singular values say of a matrix: how many directions it really has.

import type { SingularValues } from './engine.ts';

// What the package computes at most: larger matrices would take minutes.
export const kMostOfSmallerSide = 2048;
export const kMostOfMatrix = 2 ** 24;

export function isSmallEnough(rows: number, columns: number): boolean {
  return Math.min(rows, columns) <= kMostOfSmallerSide && rows * columns <= kMostOfMatrix;
}

// The largest error of rounding to a type, relative to the value. Of other types values are as exact as in f32, or exact.
const kRoundings: Record<string, number> = {
  f64: 2 ** -53, f32: 2 ** -24, f16: 2 ** -11, bf16: 2 ** -8, f8_e4m3: 2 ** -4, f8_e5m2: 2 ** -3,
};

export interface Spectrum {
  rank: number; // values that stand out from what rounding to the type would make of a matrix of less rank
  noise: number; // below which they do not
  holding: (share: number) => number; // how many of the largest have this share of the sum of squares
}

export function spectrumOf({ rows, columns, values }: SingularValues, dtype: string): Spectrum {
  const squares = values.reduce((sum, value) => sum + value * value, 0);
  // A matrix of independent errors of this size has no larger value than about this.
  const rounding = (kRoundings[dtype] ?? 2 ** -24) * Math.sqrt(squares / Math.max(1, rows * columns)) * (Math.sqrt(rows) + Math.sqrt(columns));
  const noise = Math.max(rounding, (values[0] ?? 0) * 2 ** -48); // of which the second is that of computing them
  return {
    noise,
    rank: values.filter((value) => value > noise).length,
    holding: (share) => {
      let sum = 0;
      const at = values.findIndex((value) => (sum += value * value) >= share * squares);
      return squares === 0 || at < 0 ? 0 : at + 1;
    },
  };
}

// Points of a falling curve between 0 and 1, the logarithm of each value over its place; zeros are left out.
export function curveOf(values: Float64Array): { x: number; y: number }[] {
  const positive = values.filter((value) => value > 0);
  const [high, low] = [Math.log(positive[0] ?? 1), Math.log(positive.at(-1) ?? 1)];
  return Array.from(positive, (value, at) => ({ x: values.length > 1 ? at / (values.length - 1) : 0, y: high > low ? (high - Math.log(value)) / (high - low) : 0 }));
}
