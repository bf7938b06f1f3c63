// What the Worker and the page say to each other.
import type { ErrorCode, Remedy } from './types.ts';

/** Methods of `Ballast` and `Archive` by name; archives by the number that `open` gave. */
export interface Call {
  id: number;
  method: string;
  archive?: number;
  args: unknown[];
}
export type ToWorker = Call | { cancel: number } | { taken: number; failed?: string };
export type FromWorker =
  | { id: number; result: unknown }
  | { id: number; error: { code: ErrorCode; message: string; remedies: readonly Remedy[] } }
  | { id: number; progress: [done: number, total: number] }
  | { id: number; chunk: Uint8Array }
  | { traffic: { bytes: number; reads: number } };
