// A slice as text that Python evaluates: np.array([[0.5, np.nan]], dtype=np.float32).

export function numpyText(values: ArrayLike<number>, rows: number, columns: number, dtype: 'float32' | 'float64'): string {
  const one = (value: number): string => {
    if (Number.isNaN(value)) return 'np.nan';
    if (!Number.isFinite(value)) return value > 0 ? 'np.inf' : '-np.inf';
    return shortest(value, dtype);
  };
  const lines = Array.from({ length: rows }, (_, row) =>
    `[${Array.from({ length: columns }, (_, column) => one(values[row * columns + column]!)).join(', ')}]`);
  return `np.array([${lines.join(',\n          ')}], dtype=np.${dtype})`;
}

// The shortest decimal that reads back as the same 32 bits.
function shortest(value: number, dtype: string): string {
  if (dtype === 'float64') return Object.is(value, -0) ? '-0.0' : String(value);
  if (Object.is(value, -0)) return '-0.0';
  for (let digits = 6; digits <= 9; ++digits) {
    const text = String(Number(value.toPrecision(digits)));
    if (Math.fround(Number(text)) === value) return text;
  }
  return String(value);
}
