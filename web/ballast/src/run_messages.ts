// What the Worker of models and the page say to each other.
import type { Token } from './run_types.ts';
import type { ErrorCode, Remedy } from './types.ts';

/** Methods of `Runner`, or of a model by the number that opening it gave. */
export interface RunCall {
  id: number;
  method: string;
  model?: number;
  args: unknown[];
}
export type ToRunWorker = RunCall | { cancel: number };
export type FromRunWorker =
  | { id: number; result: unknown }
  | { id: number; error: { code: ErrorCode; message: string; remedies: readonly Remedy[] } }
  | { id: number; progress: [done: number, total: number] }
  | { id: number; token: Token };
