// A tensor of any rank as a plane of rows and columns, of which parts are read.

import type { Archive, AxisRange, TensorInfo } from './engine.ts';

export interface Plane {
  rows: number;
  columns: number;
  // Every `step`th value of the rectangle, row by row.
  read: (rectangle: Rectangle, signal: AbortSignal) => Promise<Patch>;
  // Where a cell is in the tensor.
  position: (row: number, column: number) => number[];
  // Whether there is such a cell: the last row of a folded vector may be short.
  has: (row: number, column: number) => boolean;
}

export interface Rectangle {
  row: number;
  column: number;
  rows: number;
  columns: number;
  step: number;
}

export interface Patch extends Rectangle {
  height: number;
  width: number;
  values: Float32Array | Float64Array;
}

// Long vectors are folded into rows; longer ones than this are a single row, of which parts are read.
const kMostFolded = 1 << 20;

export interface Axes {
  rows: number;
  columns: number;
  fixed: number[]; // the position along every axis; those of rows and columns are ignored
}

export function firstAxes(shape: readonly number[]): Axes {
  return { rows: Math.max(0, shape.length - 2), columns: Math.max(0, shape.length - 1), fixed: shape.map(() => 0) };
}

export function planeOf(archive: Archive, tensor: TensorInfo, axes: Axes): Plane {
  return tensor.shape.length >= 2 ? slicePlane(archive, tensor, axes) : vectorPlane(archive, tensor);
}

function slicePlane(archive: Archive, tensor: TensorInfo, axes: Axes): Plane {
  return {
    rows: tensor.shape[axes.rows]!,
    columns: tensor.shape[axes.columns]!,
    position: (row, column) => tensor.shape.map((_, axis) => (axis === axes.rows ? row : axis === axes.columns ? column : axes.fixed[axis]!)),
    has: (row, column) => row < tensor.shape[axes.rows]! && column < tensor.shape[axes.columns]!,
    async read(rectangle, signal) {
      const { row, column, rows, columns, step } = rectangle;
      const ranges: AxisRange[] = tensor.shape.map((_, axis) => {
        if (axis === axes.rows) return { begin: row, end: row + rows, step };
        return axis === axes.columns ? { begin: column, end: column + columns, step } : axes.fixed[axis]!;
      });
      const { values } = await archive.values(tensor.name, ranges, { signal });
      const height = Math.ceil(rows / step);
      const width = Math.ceil(columns / step);
      return { ...rectangle, height, width, values: axes.rows < axes.columns ? values : transposed(values, height, width) };
    },
  };
}

// `values` come with the axis of columns first.
function transposed(values: Float32Array | Float64Array, height: number, width: number): Float32Array | Float64Array {
  const turned = values.slice();
  for (let row = 0; row < height; ++row) for (let column = 0; column < width; ++column) turned[row * width + column] = values[column * height + row]!;
  return turned;
}

function vectorPlane(archive: Archive, tensor: TensorInfo): Plane {
  const length = tensor.elements;
  const isFolded = length > 64 && length <= kMostFolded;
  const columns = isFolded ? 2 ** Math.ceil(Math.log2(Math.sqrt(length))) : length;
  const rows = columns === 0 ? 0 : Math.ceil(length / columns);
  return {
    rows,
    columns,
    position: (row, column) => (tensor.shape.length === 0 ? [] : [row * columns + column]),
    has: (row, column) => column < columns && row * columns + column < length,
    async read(rectangle, signal) {
      const { row, column, rows: deep, columns: wide, step } = rectangle;
      const begin = row * columns + (isFolded ? 0 : column);
      const end = Math.min(length, isFolded ? (row + deep) * columns : column + wide);
      const axis = { begin, end, step: isFolded ? 1 : step };
      const { values } = await archive.values(tensor.name, tensor.shape.length === 0 ? [] : [axis], { signal });
      const height = Math.ceil(deep / step);
      const width = Math.ceil(wide / step);
      if (!isFolded) return { ...rectangle, height, width, values };
      const picked = new (values.constructor as typeof Float64Array)(height * width).fill(NaN);
      for (let y = 0; y < height; ++y) {
        for (let x = 0; x < width; ++x) {
          const at = y * step * columns + column + x * step;
          if (at < values.length) picked[y * width + x] = values[at]!;
        }
      }
      return { ...rectangle, height, width, values: picked };
    },
  };
}

// Row-major position to one index for each axis.
export function indexOf(shape: readonly number[], position: number): number[] {
  const index = shape.map(() => 0);
  let rest = position;
  for (let axis = shape.length - 1; axis >= 0; --axis) {
    index[axis] = rest % shape[axis]!;
    rest = Math.floor(rest / shape[axis]!);
  }
  return index;
}
