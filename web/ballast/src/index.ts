// Opens, measures, compares and converts weight files, reading only the ranges it needs.
import { load } from './local.ts';
import type { Archive, Ballast, DiffOptions, DiffReport, OpenOptions, Source } from './types.ts';

export { BallastError } from './error.ts';
export { load } from './local.ts';
export { loadInWorker } from './worker_client.ts';
export type * from './types.ts';

let shared: Promise<Ballast> | null = null;
const theModule = (): Promise<Ballast> => (shared ??= load());

/** On a module that is loaded when first needed, on this thread. */
export async function open(source: Source, options?: OpenOptions): Promise<Archive> {
  return await (await theModule()).open(source, options);
}

/** Of two archives that `open` gave. */
export async function diff(a: Archive, b: Archive, options?: DiffOptions): Promise<DiffReport> {
  return await (await theModule()).diff(a, b, options);
}
