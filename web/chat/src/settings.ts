// What a conversation asks of the model. A number that is null is not sent: the server's default applies.

export interface Settings {
  model: string; // empty: the server's first
  system: string;
  temperature: number | null;
  top_p: number | null;
  top_k: number | null;
  min_p: number | null;
  max_tokens: number | null;
  seed: number | null;
  useSchema: boolean;
  schema: string;
}

export type NumberName = 'temperature' | 'top_p' | 'top_k' | 'min_p' | 'max_tokens' | 'seed';

interface NumberRule {
  name: NumberName;
  label: string;
  hint: string;
  min: number;
  max: number;
  isInteger: boolean;
}

export const kNumbers: readonly NumberRule[] = [
  { name: 'temperature', label: 'Temperature', hint: '0: always pick the likeliest token', min: 0, max: 2, isInteger: false },
  { name: 'top_p', label: 'Top p', hint: 'sample from the likeliest tokens up to this total probability', min: 0, max: 1, isInteger: false },
  { name: 'top_k', label: 'Top k', hint: 'sample from this many of the likeliest tokens', min: 0, max: 1_000_000, isInteger: true },
  { name: 'min_p', label: 'Min p', hint: 'drop tokens less likely than this fraction of the likeliest', min: 0, max: 1, isInteger: false },
  { name: 'max_tokens', label: 'Max tokens', hint: 'maximum length of an answer', min: 1, max: 10_000_000, isInteger: true },
  { name: 'seed', label: 'Seed', hint: 'the same seed repeats the same answer', min: 0, max: Number.MAX_SAFE_INTEGER, isInteger: true },
];

export function defaultSettings(): Settings {
  return {
    model: '', system: '', temperature: null, top_p: null, top_k: null, min_p: null, max_tokens: null, seed: null,
    useSchema: false, schema: '',
  };
}

export type Parsed<T> = { ok: true; value: T } | { ok: false; message: string };

function inRange(rule: NumberRule, value: number): boolean {
  return Number.isFinite(value) && value >= rule.min && value <= rule.max && (!rule.isInteger || Number.isInteger(value));
}

// What a number field holds; empty is null.
export function parseNumber(rule: NumberRule, text: string): Parsed<number | null> {
  const trimmed = text.trim();
  if (trimmed === '') return { ok: true, value: null };
  const value = Number(trimmed);
  if (inRange(rule, value)) return { ok: true, value };
  const kind = rule.isInteger ? 'a whole number' : 'a number';
  const range = rule.max >= 1_000_000 ? `of at least ${rule.min}` : `from ${rule.min} to ${rule.max}`;
  return { ok: false, message: `${rule.label} must be ${kind} ${range}, or empty for the server's default.` };
}

export function parseSchema(text: string): Parsed<object> {
  if (text.trim() === '') return { ok: false, message: 'The JSON schema is empty.' };
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return { ok: true, value };
    return { ok: false, message: 'The JSON schema must be an object, like {"type": "object"}.' };
  } catch (error) {
    return { ok: false, message: `The JSON schema is not valid JSON: ${error instanceof Error ? error.message : error}` };
  }
}

// Settings as stored or imported: whatever is missing or has another type becomes the default.
export function readSettings(value: unknown): Settings {
  const settings = defaultSettings();
  if (typeof value !== 'object' || value === null) return settings;
  const fields = value as Record<string, unknown>;
  for (const name of ['model', 'system', 'schema'] as const) {
    const field = fields[name];
    if (typeof field === 'string') settings[name] = field;
  }
  for (const rule of kNumbers) {
    const field = fields[rule.name];
    if (typeof field === 'number' && inRange(rule, field)) settings[rule.name] = field;
  }
  settings.useSchema = fields['useSchema'] === true;
  return settings;
}
