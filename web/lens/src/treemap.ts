// Squarified treemaps (Bruls, Huizing, van Wijk, 2000): areas in proportion, shapes as close to squares as they go.

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

// Sizes in descending order; the boxes come in the same order and fill `box`. Sizes of zero get empty boxes.
export function squarify(sizes: readonly number[], box: Box): Box[] {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const boxes: Box[] = [];
  if (total <= 0 || box.width <= 0 || box.height <= 0) return sizes.map(() => ({ x: box.x, y: box.y, width: 0, height: 0 }));
  const scale = (box.width * box.height) / total;
  const rest = { ...box };
  let begin = 0;
  while (begin < sizes.length) {
    const side = Math.min(rest.width, rest.height);
    let end = begin;
    let area = 0;
    let worst = Infinity;
    while (end < sizes.length) {
      const grown = area + sizes[end]! * scale;
      const ratio = worstRatio(sizes[begin]! * scale, sizes[end]! * scale, grown, side);
      if (end > begin && ratio > worst) break;
      area = grown;
      worst = ratio;
      ++end;
    }
    layRow(sizes.slice(begin, end), scale, area, rest, boxes);
    begin = end;
  }
  return boxes;
}

function worstRatio(largest: number, smallest: number, area: number, side: number): number {
  if (area <= 0 || smallest <= 0) return Infinity;
  const square = side * side;
  return Math.max((square * largest) / (area * area), (area * area) / (square * smallest));
}

// One row along the shorter side of `rest`, which shrinks by it.
function layRow(sizes: readonly number[], scale: number, area: number, rest: Box, boxes: Box[]): void {
  const isUpright = rest.width >= rest.height;
  const side = isUpright ? rest.height : rest.width;
  const thickness = side > 0 ? area / side : 0;
  let at = isUpright ? rest.y : rest.x;
  for (const size of sizes) {
    const length = thickness > 0 ? (size * scale) / thickness : 0;
    boxes.push(isUpright ? { x: rest.x, y: at, width: thickness, height: length } : { x: at, y: rest.y, width: length, height: thickness });
    at += length;
  }
  if (isUpright) {
    rest.x += thickness;
    rest.width = Math.max(0, rest.width - thickness);
  } else {
    rest.y += thickness;
    rest.height = Math.max(0, rest.height - thickness);
  }
}
