// Models in the second module, on this thread. Each has an instance of its own, whose memory goes with it.
import { BallastError, checkSignal } from './error.ts';
import { Instance, ModuleOutOfMemory, type Reply } from './instance.ts';
import { compile } from './local.ts';
import type {
  Activation, Generated, GenerateOptions, Inspection, LayerInfo, OpenModelOptions, Runner, SequentialModel, SequentialRun, TextModel,
  TextModelInfo, Token, TokenProbability,
} from './run_types.ts';
import { closeSources, openSources, type ClosableSource } from './sources.ts';
import type { ErrorCode, LoadOptions, Source } from './types.ts';

const kMostPerRead = 8 << 20;
const kPause = 16; // milliseconds that a page may wait

/** Calls of one instance. Once it has failed, or was closed, there is nothing to call. */
class Session {
  #instance: Instance | null;
  #gone = 'the model is closed';
  #lastPause = performance.now();

  constructor(instance: Instance) {
    this.#instance = instance;
  }

  ask(request: object): Reply & { ok: Record<string, unknown> } {
    const reply = this.#guarded((instance) => instance.call(request));
    if (reply.error) throw new BallastError(reply.error.code as ErrorCode, reply.error.message, reply.error.remedies);
    return reply as Reply & { ok: Record<string, unknown> };
  }

  write(address: number, bytes: Uint8Array): void {
    this.#guarded((instance) => instance.write(address, bytes));
  }

  close(): void {
    this.#instance = null;
  }

  /** Lets the page breathe. */
  async pause(signal: AbortSignal | undefined): Promise<void> {
    if (performance.now() - this.#lastPause >= kPause) {
      await otherTasks();
      this.#lastPause = performance.now();
    }
    checkSignal(signal);
  }

  #guarded<T>(body: (instance: Instance) => T): T {
    if (this.#instance === null) throw new BallastError('invalid_argument', this.#gone);
    try {
      return body(this.#instance);
    } catch (thrown) {
      this.#instance = null;
      this.#gone = 'the model was lost when the module failed: open it again';
      throw failure(thrown);
    }
  }
}

// A timer would wait for milliseconds, of which a small model writes a token.
function otherTasks(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}

function failure(thrown: unknown): BallastError {
  if (thrown instanceof ModuleOutOfMemory) {
    return new BallastError('out_of_memory', 'the module ran out of memory, and the model with it: open it again, or a smaller one');
  }
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  return new BallastError('trap', `the module failed, and the model is lost: ${message}`);
}

async function copyIn(session: Session, sources: readonly ClosableSource[], options: OpenModelOptions): Promise<void> {
  const total = sources.reduce((sum, { size }) => sum + size, 0);
  let done = 0;
  for (const source of sources) {
    const address = session.ask({ op: 'file', name: source.name, size: source.size }).ok['address'] as number;
    for (let at = 0; at < source.size; at += kMostPerRead) {
      checkSignal(options.signal);
      const length = Math.min(kMostPerRead, source.size - at);
      const bytes = await source.read(at, length, options.signal);
      if (bytes.length !== length) throw new BallastError('io', `${source.name}: ${bytes.length} of ${length} bytes at ${at} could be read`);
      session.write(address + at, bytes);
      options.onProgress?.(done += length, total);
    }
  }
}

interface Told {
  tokens: Token[];
}

class LocalTextModel implements TextModel {
  readonly info: TextModelInfo;
  readonly #session: Session;
  #queue: Promise<unknown> = Promise.resolve();

  constructor(session: Session, info: TextModelInfo) {
    this.#session = session;
    this.info = info;
  }

  tokens(text: string): readonly Token[] {
    return (this.#session.ask({ op: 'tokens', text }).ok as unknown as Told).tokens;
  }

  generate(prompt: string, options: GenerateOptions): Promise<Generated> {
    return this.#exclusively(() => this.#generate(prompt, options));
  }

  inspect(prompt: string, options: { top?: number; signal?: AbortSignal } = {}): Promise<Inspection> {
    return this.#exclusively(() => this.#inspect(prompt, options));
  }

  close(): void {
    this.#session.close();
  }

  // One text at a time: the module remembers one.
  #exclusively<T>(operation: () => Promise<T>): Promise<T> {
    const result = this.#queue.then(operation, operation);
    this.#queue = result.catch(() => undefined);
    return result;
  }

  async #generate(prompt: string, { onToken, signal, ...rest }: GenerateOptions): Promise<Generated> {
    checkSignal(signal);
    const began = performance.now();
    let promptEnd = 0;
    const tokens: Token[] = [];
    let text = '';
    this.#session.ask({ op: 'start', prompt, ...rest });
    for (;;) {
      const { ok } = this.#session.ask({ op: 'step' });
      for (const token of (ok as unknown as Told).tokens) {
        tokens.push(token);
        text += token.text;
        onToken?.(token);
      }
      if (promptEnd === 0 && (tokens.length !== 0 || ok['finished'])) promptEnd = performance.now();
      if (ok['finished']) {
        const secondsDecode = (performance.now() - promptEnd) / 1000;
        return { tokens, text: text + (ok['rest'] as string), secondsPrompt: (promptEnd - began) / 1000, secondsDecode };
      }
      await this.#session.pause(signal);
    }
  }

  async #inspect(prompt: string, { top = 10, signal }: { top?: number; signal?: AbortSignal }): Promise<Inspection> {
    checkSignal(signal);
    const { ok } = this.#session.ask({ op: 'inspect', prompt, top });
    const { tokens, next, layers } = ok as unknown as Told & { next: TokenProbability[]; layers: number };
    const lens: TokenProbability[][][] = [];
    const attention: Float32Array[] = [];
    for (let layer = 0; layer < layers; ++layer) {
      await this.#session.pause(signal);
      const reply = this.#session.ask({ op: 'layer', layer });
      lens.push(reply.ok['lens'] as TokenProbability[][]);
      attention.push(new Float32Array(reply.bytes.buffer));
    }
    return inspection(tokens, next, lens, attention);
  }
}

/** `maps`: of each layer, of all its heads. */
export function inspection(tokens: Token[], next: TokenProbability[], lens: TokenProbability[][][], maps: Float32Array[]): Inspection & { maps: Float32Array[] } {
  const area = tokens.length ** 2;
  return {
    tokens, next, lens, maps,
    attention(layer: number, head: number): Float32Array {
      const all = maps[layer];
      if (all === undefined || !Number.isInteger(head) || head < 0 || (head + 1) * area > all.length) {
        throw new BallastError('invalid_argument', `there is no head ${head} in a layer ${layer} of this model`);
      }
      return all.slice(head * area, (head + 1) * area);
    },
  };
}

class LocalSequentialModel implements SequentialModel {
  readonly layers: readonly LayerInfo[];
  readonly inputShape: readonly number[];
  readonly classes: readonly string[];
  readonly #session: Session;

  constructor(session: Session, told: Record<string, unknown>) {
    this.#session = session;
    this.layers = told['layers'] as LayerInfo[];
    this.inputShape = told['inputShape'] as number[];
    this.classes = told['classes'] as string[];
  }

  run(input: Float32Array): SequentialRun {
    const { ok, bytes } = this.#session.ask({ op: 'runLayers', input: [...input] });
    const values = new Float32Array(bytes.buffer);
    let at = 0;
    const activations = (ok['layers'] as LayerInfo[]).map(({ name, shape }): Activation => {
      const count = shape.reduce((product, size) => product * size, 1);
      return { name, shape, values: values.slice(at, at += count) };
    });
    return { output: activations.at(-1)?.values.slice() ?? new Float32Array(input), activations };
  }

  close(): void {
    this.#session.close();
  }
}

export class LocalRunner implements Runner {
  readonly #module: WebAssembly.Module;
  readonly #sessions = new Set<Session>();

  constructor(module: WebAssembly.Module) {
    this.#module = module;
  }

  async openTextModel(files: readonly Source[], options: OpenModelOptions = {}): Promise<TextModel> {
    return await this.#open(files, options, 'openText', (session, told) => new LocalTextModel(session, told['info'] as TextModelInfo));
  }

  async openSequential(files: readonly Source[], options: OpenModelOptions = {}): Promise<SequentialModel> {
    return await this.#open(files, options, 'openLayers', (session, told) => new LocalSequentialModel(session, told));
  }

  close(): void {
    for (const session of this.#sessions) session.close();
    this.#sessions.clear();
  }

  async #open<T>(files: readonly Source[], options: OpenModelOptions, op: string, make: (session: Session, told: Record<string, unknown>) => T): Promise<T> {
    if (files.length === 0) throw new BallastError('invalid_argument', 'there is no file to open');
    const sources: ClosableSource[] = [];
    try {
      for (const file of files) sources.push(...await openSources(file, options.signal ? { signal: options.signal } : {}));
      const session = new Session(await Instance.create(this.#module));
      await copyIn(session, sources, options);
      checkSignal(options.signal);
      const model = make(session, session.ask({ op }).ok);
      this.#sessions.add(session);
      return model;
    } finally {
      await closeSources(sources);
    }
  }
}

export async function loadRunner(options: LoadOptions = {}): Promise<LocalRunner> {
  return new LocalRunner(await compile(options.module ?? new URL('../dist/ballast-run.wasm', import.meta.url)));
}
