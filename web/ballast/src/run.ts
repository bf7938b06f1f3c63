// `ballast-weights/run`: runs models of text and models of layers, and shows what happens inside them.
import { loadRunner } from './run_local.ts';
import type { OpenModelOptions, Runner, SequentialModel, TextModel } from './run_types.ts';
import type { Source } from './types.ts';

export { BallastError } from './error.ts';
export { loadRunner } from './run_local.ts';
export { loadRunnerInWorker } from './run_worker_client.ts';
export type * from './run_types.ts';
export type { LoadOptions, RangeSource, Source } from './types.ts';

let shared: Promise<Runner> | null = null;
const theModule = (): Promise<Runner> => (shared ??= loadRunner());

/** On a module that is loaded when first needed, on this thread. */
export async function openTextModel(files: readonly Source[], options?: OpenModelOptions): Promise<TextModel> {
  return await (await theModule()).openTextModel(files, options);
}

/** As openTextModel. */
export async function openSequential(files: readonly Source[], options?: OpenModelOptions): Promise<SequentialModel> {
  return await (await theModule()).openSequential(files, options);
}
