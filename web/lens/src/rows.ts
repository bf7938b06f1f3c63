// Rows of the table of tensors: filtered by a pattern, sorted by a column, added up.

export interface Row {
  name: string;
  dtype: string;
  shape: readonly number[];
  elements: number;
  bytes: number;
}

export type Column = 'order' | 'name' | 'dtype' | 'shape' | 'elements' | 'bytes';

export interface Pattern {
  matches: (text: string) => boolean;
  problem: string | null; // why the pattern is no regular expression: then nothing is filtered
}

export function compilePattern(text: string): Pattern {
  if (text === '') return { matches: () => true, problem: null };
  try {
    const expression = new RegExp(text, 'i');
    return { matches: (name) => expression.test(name), problem: null };
  } catch (error) {
    return { matches: () => true, problem: error instanceof Error ? error.message : String(error) };
  }
}

// Numbers in names count as numbers: layer 2 comes before layer 10.
const kByName = new Intl.Collator('en', { numeric: true });

export function compareRows(column: Column): (a: Row, b: Row) => number {
  switch (column) {
    case 'order': return () => 0;
    case 'name': return (a, b) => kByName.compare(a.name, b.name);
    case 'dtype': return (a, b) => kByName.compare(a.dtype, b.dtype);
    case 'shape': return (a, b) => compareShapes(a.shape, b.shape);
    case 'elements': return (a, b) => a.elements - b.elements;
    case 'bytes': return (a, b) => a.bytes - b.bytes;
  }
}

function compareShapes(a: readonly number[], b: readonly number[]): number {
  if (a.length !== b.length) return a.length - b.length;
  for (let at = 0; at < a.length; ++at) if (a[at] !== b[at]) return a[at]! - b[at]!;
  return 0;
}

export interface Order {
  column: Column;
  descending: boolean;
}

// Indices into `rows`, of those that match, in order.
export function arrange(rows: readonly Row[], pattern: Pattern, { column, descending }: Order): number[] {
  const found: number[] = [];
  for (let at = 0; at < rows.length; ++at) if (pattern.matches(rows[at]!.name)) found.push(at);
  const compare = compareRows(column);
  if (column !== 'order') found.sort((a, b) => compare(rows[a]!, rows[b]!) || a - b);
  return descending ? found.reverse() : found;
}

export interface Totals {
  tensors: number;
  elements: number;
  bytes: number;
}

export function totalsOf(rows: readonly Row[], indices: Iterable<number>): Totals {
  const totals = { tensors: 0, elements: 0, bytes: 0 };
  for (const at of indices) {
    ++totals.tensors;
    totals.elements += rows[at]!.elements;
    totals.bytes += rows[at]!.bytes;
  }
  return totals;
}
