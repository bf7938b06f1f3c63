import assert from 'node:assert/strict';
import { test } from 'node:test';

import { squarify } from '../src/treemap.ts';

const box = { x: 10, y: 20, width: 300, height: 200 };

test('areas are in proportion to sizes and fill the box', () => {
  const sizes = [600, 600, 400, 300, 200, 200, 100];
  const boxes = squarify(sizes, box);
  const area = box.width * box.height;
  boxes.forEach(({ width, height }, at) => assert.ok(Math.abs(width * height - (area * sizes[at]!) / 2400) < 1e-6, `box ${at}`));
});

test('no box leaves the frame or overlaps another', () => {
  const boxes = squarify(Array.from({ length: 60 }, (_, at) => 1000 / (at + 1)), box);
  for (const one of boxes) {
    assert.ok(one.x >= box.x - 1e-6 && one.y >= box.y - 1e-6);
    assert.ok(one.x + one.width <= box.x + box.width + 1e-6 && one.y + one.height <= box.y + box.height + 1e-6);
  }
  for (let a = 0; a < boxes.length; ++a) {
    for (let b = a + 1; b < boxes.length; ++b) {
      const wide = Math.min(boxes[a]!.x + boxes[a]!.width, boxes[b]!.x + boxes[b]!.width) - Math.max(boxes[a]!.x, boxes[b]!.x);
      const high = Math.min(boxes[a]!.y + boxes[a]!.height, boxes[b]!.y + boxes[b]!.height) - Math.max(boxes[a]!.y, boxes[b]!.y);
      assert.ok(wide < 1e-6 || high < 1e-6, `${a} and ${b}`);
    }
  }
});

test('equal sizes give shapes close to squares', () => {
  for (const { width, height } of squarify(new Array<number>(16).fill(1), { x: 0, y: 0, width: 100, height: 100 })) {
    assert.ok(Math.max(width / height, height / width) < 2);
  }
});

test('tensors without elements, and none at all, get empty boxes', () => {
  assert.deepEqual(squarify([], box), []);
  assert.equal(squarify([0, 0], box).every(({ width, height }) => width * height === 0), true);
  assert.equal(squarify([5, 0], box)[1]!.width * squarify([5, 0], box)[1]!.height, 0);
});
