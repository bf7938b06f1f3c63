// The interface of `ballast-weights/run`: models that compute, in the second module. Loaded by itself, so that a page
// that only looks into files pays nothing for it.
import type { LoadOptions, Source } from './types.ts';

export interface Token {
  readonly id: number;
  /** By itself, where bytes that are no whole character show as U+FFFD; while a text is generated, what it adds to that
   * text, which is nothing until a character is whole. */
  readonly text: string;
}

export interface TokenProbability {
  readonly token: Token;
  readonly probability: number;
}

export interface OpenModelOptions {
  /** Bytes of the files read, and their sum. */
  onProgress?: (done: number, total: number) => void;
  signal?: AbortSignal;
}

export interface TextModelInfo {
  /** "gpt", "llama", "qwen2", ... */
  readonly family: string;
  readonly layers: number;
  /** Of queries, in each layer. */
  readonly heads: number;
  /** Tokens that the model can see at once. */
  readonly contextLength: number;
  readonly vocabulary: number;
}

export interface GenerateOptions {
  maxTokens: number;
  /** 0, the default, always takes the likeliest token. */
  temperature?: number;
  /** Draws among so many of the likeliest; 0 or left out: among all. */
  topK?: number;
  /** Draws among the likeliest that together have this probability; left out: among all. */
  topP?: number;
  /** The same seed draws the same tokens. */
  seed?: number;
  onToken?: (token: Token) => void;
  signal?: AbortSignal;
}

export interface Generated {
  /** Without the prompt's, and without the token that ended the text. */
  readonly tokens: readonly Token[];
  readonly text: string;
  readonly secondsPrompt: number;
  readonly secondsDecode: number;
}

export interface Inspection {
  /** As the model saw them: with the token that begins a text, where the model wants one. */
  readonly tokens: readonly Token[];
  /** The likeliest to follow the last token, in falling order. */
  readonly next: readonly TokenProbability[];
  /** [layer][position]: the best 5 where the final norm and the head follow this layer at once ("logit lens"). */
  readonly lens: readonly (readonly (readonly TokenProbability[])[])[];
  /** Of one head, n rows of n for n tokens: row by row what each query looks at. */
  attention(layer: number, head: number): Float32Array;
}

export interface TextModel {
  readonly info: TextModelInfo;
  tokens(text: string): readonly Token[];
  generate(prompt: string, options: GenerateOptions): Promise<Generated>;
  /** `top`: how many tokens `next` has, 10 by default. Texts of at most 256 tokens. Blocks for one pass, and then for one
   * layer at a time. */
  inspect(prompt: string, options?: { top?: number; signal?: AbortSignal }): Promise<Inspection>;
  close(): void;
}

export interface LayerInfo {
  readonly name: string;
  /** "Linear", "Conv2d", "ReLU", ... */
  readonly kind: string;
  /** Of what comes out of it, without the batch. */
  readonly shape: readonly number[];
}

export interface Activation {
  readonly name: string;
  readonly shape: readonly number[];
  readonly values: Float32Array;
}

export interface SequentialRun {
  readonly output: Float32Array;
  /** After each layer, in order. */
  readonly activations: readonly Activation[];
}

export interface SequentialModel {
  readonly layers: readonly LayerInfo[];
  /** Of one example: what `run` wants. */
  readonly inputShape: readonly number[];
  /** What the outputs stand for, in order; empty where the file does not say it. */
  readonly classes: readonly string[];
  run(input: Float32Array): SequentialRun;
  close(): void;
}

/** The module, on this thread: `generate` and `inspect` let the page breathe, each token by itself blocks it. */
export interface Runner {
  /** Weights with the tokenizer.json and config.json beside them, or one file that holds all three. */
  openTextModel(files: readonly Source[], options?: OpenModelOptions): Promise<TextModel>;
  /** A classifier of layers, such as the digits'. */
  openSequential(files: readonly Source[], options?: OpenModelOptions): Promise<SequentialModel>;
  close(): void;
}

/** The same in a Worker, where nothing can be answered at once. */
export interface TextModelInWorker extends Omit<TextModel, 'tokens'> {
  tokens(text: string): Promise<readonly Token[]>;
}
export interface SequentialModelInWorker extends Omit<SequentialModel, 'run'> {
  run(input: Float32Array): Promise<SequentialRun>;
}
export interface RunnerInWorker {
  openTextModel(files: readonly Source[], options?: OpenModelOptions): Promise<TextModelInWorker>;
  openSequential(files: readonly Source[], options?: OpenModelOptions): Promise<SequentialModelInWorker>;
  close(): void;
}

/** What `ballast-weights/run` exports, together with `BallastError`. */
export interface RunEntry {
  openTextModel: Runner['openTextModel'];
  openSequential: Runner['openSequential'];
  /** A module of its own on this thread. `module`: where ballast-run.wasm is, as bytes or compiled. */
  loadRunner(options?: LoadOptions): Promise<Runner>;
  loadRunnerInWorker(options?: LoadOptions): Promise<RunnerInWorker>;
}
