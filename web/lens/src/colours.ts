// Colours of values and of element types.

export type Rgb = readonly [number, number, number];

// Blue below zero, white at zero, red above: the ends are as dark as each other, so that neither sign looks larger.
const kDiverging: readonly Rgb[] = [[5, 48, 97], [33, 102, 172], [67, 147, 195], [146, 197, 222], [209, 229, 240], [247, 247, 247],
  [253, 219, 199], [244, 165, 130], [214, 96, 77], [178, 24, 43], [103, 0, 31]];
export const kNanColour: Rgb = [255, 0, 255];
export const kInfColour: Rgb = [255, 214, 0];

// `limit` is what the ends of the scale stand for.
export function valueColour(value: number, limit: number): Rgb {
  if (Number.isNaN(value)) return kNanColour;
  if (!Number.isFinite(value)) return kInfColour;
  const share = limit > 0 ? Math.min(1, Math.max(0, (value / limit + 1) / 2)) : 0.5;
  const at = share * (kDiverging.length - 1);
  const low = Math.min(Math.floor(at), kDiverging.length - 2);
  const [from, to] = [kDiverging[low]!, kDiverging[low + 1]!];
  const mix = (index: 0 | 1 | 2): number => Math.round(from[index] + (to[index] - from[index]) * (at - low));
  return [mix(0), mix(1), mix(2)];
}

export function cssColour([red, green, blue]: Rgb): string {
  return `rgb(${red} ${green} ${blue})`;
}

// One hue for each family of element types: dark enough for white text, in both themes.
const kTypeColours: readonly (readonly [RegExp, string])[] = [
  [/^f64|^c(64|128)/i, '#5b3f8c'], [/^f32/i, '#0f5c6e'], [/^bf16/i, '#2a6f3c'], [/^f16/i, '#1d5fa8'], [/^f8|^mx|^nv|^fp|^f[46]|^e\dm/i, '#8a3b6d'],
  [/^i?q|^tq/i, '#93490b'], [/^[iu]\d/i, '#5d6516'], [/^bool/i, '#5a6169'],
];

export function typeColour(dtype: string): string {
  return kTypeColours.find(([pattern]) => pattern.test(dtype))?.[1] ?? '#6b4a3a';
}
