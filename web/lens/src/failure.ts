// What went wrong, in words for people.

export interface Failure {
  code: string;
  message: string;
  remedies: readonly string[];
}

const kHeadlines: Record<string, string> = {
  unknown_format: 'This is not a weight file that Ballast knows',
  corrupt: 'This file is damaged',
  unsupported: 'This file uses something that is not supported',
  out_of_memory: 'There is not enough memory for this',
  trap: 'The reader failed on this file',
  not_found: 'Something is missing',
  lossy: 'This format cannot hold everything',
  io: 'The file could not be read',
};

export function headline(failure: Failure): string {
  return kHeadlines[failure.code] ?? 'That did not work';
}

export function failureOf(error: unknown): Failure {
  const { code, message, remedies } = (error ?? {}) as { code?: unknown; message?: unknown; remedies?: unknown };
  const texts = Array.isArray(remedies) ? remedies.map((remedy: { text?: unknown }) => String(remedy.text ?? '')) : [];
  return { code: typeof code === 'string' ? code : 'io', message: typeof message === 'string' ? message : String(error), remedies: texts.filter((text) => text !== '') };
}

export function isCancelled(error: unknown): boolean {
  const { code, name } = (error ?? {}) as { code?: unknown; name?: unknown };
  return code === 'cancelled' || name === 'AbortError';
}
