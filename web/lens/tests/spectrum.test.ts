import assert from 'node:assert/strict';
import { test } from 'node:test';

import { curveOf, isSmallEnough, spectrumOf } from '../src/spectrum.ts';

const of = (values: number[], rows = values.length, columns = values.length) => ({ rows, columns, values: Float64Array.from(values) });

test('the rank counts what stands out from rounding to the type', () => {
  const values = of([10, 5, 1e-3, 1e-12], 100, 4);
  assert.equal(spectrumOf(values, 'f64').rank, 4);
  assert.equal(spectrumOf(values, 'f32').rank, 3);
  assert.equal(spectrumOf(values, 'bf16').rank, 2);
  assert.equal(spectrumOf(of([0, 0]), 'f32').rank, 0);
  assert.equal(spectrumOf(of([]), 'f32').rank, 0);
});

test('shares of the sum of squares are held by the largest', () => {
  const { holding } = spectrumOf(of([3, 2, 1]), 'f32'); // 9, 4 and 1 of 14
  assert.deepEqual([0.5, 0.9, 0.99].map(holding), [1, 2, 3]);
  assert.equal(spectrumOf(of([0, 0]), 'f32').holding(0.5), 0);
});

test('the curve falls from the largest to the smallest, and leaves zeros out', () => {
  assert.deepEqual(curveOf(Float64Array.of(100, 10, 1, 0)), [{ x: 0, y: 0 }, { x: 1 / 3, y: 0.5 }, { x: 2 / 3, y: 1 }]);
  assert.deepEqual(curveOf(Float64Array.of(5)), [{ x: 0, y: 0 }]);
  assert.deepEqual(curveOf(Float64Array.of(0)), []);
});

test('large matrices are not computed', () => {
  assert.ok(isSmallEnough(2048, 8192));
  assert.ok(!isSmallEnough(2049, 2049));
  assert.ok(!isSmallEnough(16, 2 ** 21));
});
