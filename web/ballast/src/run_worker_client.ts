// The page's side of the Worker of models.
import { BallastError, checkSignal } from './error.ts';
import { inspection } from './run_local.ts';
import type { FromRunWorker, ToRunWorker } from './run_messages.ts';
import type {
  Generated, GenerateOptions, Inspection, LayerInfo, OpenModelOptions, RunnerInWorker, SequentialModelInWorker, SequentialRun,
  TextModelInfo, TextModelInWorker, Token, TokenProbability,
} from './run_types.ts';
import type { LoadOptions, Source } from './types.ts';

interface Going {
  signal?: AbortSignal | undefined;
  onProgress?: OpenModelOptions['onProgress'];
  onToken?: GenerateOptions['onToken'];
}
interface Pending extends Going {
  resolve(result: unknown): void;
  reject(reason: BallastError): void;
}

class WorkerRunner implements RunnerInWorker {
  readonly #worker: Worker;
  readonly #pending = new Map<number, Pending>();
  #last = 0;
  #closed = false;

  constructor(worker: Worker) {
    this.#worker = worker;
    worker.addEventListener('message', (event: MessageEvent<FromRunWorker>) => this.#hear(event.data));
    worker.addEventListener('error', (event) => this.#fail(event.message || 'it could not be started'));
  }

  call(method: string, model: number | undefined, args: unknown[], going: Going = {}): Promise<unknown> {
    return new Promise((resolve, reject) => {
      checkSignal(going.signal);
      if (this.#closed) throw new BallastError('invalid_argument', 'the Worker is closed');
      const id = ++this.#last;
      this.#pending.set(id, { ...going, resolve, reject });
      going.signal?.addEventListener('abort', () => this.#say({ cancel: id }), { once: true });
      try {
        this.#say({ id, method, args, ...(model === undefined ? {} : { model }) });
      } catch (thrown) {
        this.#pending.delete(id);
        reject(new BallastError('invalid_argument', `a Worker cannot be given this: ${String(thrown)}`));
      }
    });
  }

  #say(message: ToRunWorker): void {
    this.#worker.postMessage(message);
  }

  #hear(message: FromRunWorker): void {
    const pending = this.#pending.get(message.id);
    if (pending === undefined) return;
    if ('progress' in message) return pending.onProgress?.(...message.progress);
    if ('token' in message) return pending.onToken?.(message.token);
    this.#pending.delete(message.id);
    if ('error' in message) pending.reject(new BallastError(message.error.code, message.error.message, message.error.remedies));
    else pending.resolve(message.result);
  }

  #fail(why: string): void {
    for (const { reject } of this.#pending.values()) reject(new BallastError('trap', `the Worker failed: ${why}`));
    this.#pending.clear();
  }

  async openTextModel(files: readonly Source[], options: OpenModelOptions = {}): Promise<TextModelInWorker> {
    return new WorkerTextModel(this, (await this.call('openTextModel', undefined, [sendable(files)], options)) as TextDescription);
  }

  async openSequential(files: readonly Source[], options: OpenModelOptions = {}): Promise<SequentialModelInWorker> {
    return new WorkerSequentialModel(this, (await this.call('openSequential', undefined, [sendable(files)], options)) as LayersDescription);
  }

  close(): void {
    this.#closed = true;
    this.#worker.terminate();
    this.#fail('it was closed');
  }
}

// URLs cannot be cloned, and relative ones are relative to the page.
function sendable(files: readonly Source[]): unknown[] {
  return files.map((file) => {
    if (file instanceof URL) return file.href;
    return typeof file === 'string' ? new URL(file, globalThis.location?.href).href : file;
  });
}

interface TextDescription {
  model: number;
  info: TextModelInfo;
}

class WorkerTextModel implements TextModelInWorker {
  readonly info: TextModelInfo;
  readonly #runner: WorkerRunner;
  readonly #id: number;

  constructor(runner: WorkerRunner, told: TextDescription) {
    this.#runner = runner;
    this.#id = told.model;
    this.info = told.info;
  }

  async tokens(text: string): Promise<readonly Token[]> {
    return (await this.#runner.call('tokens', this.#id, [text])) as Token[];
  }
  async generate(prompt: string, { signal, onToken, ...rest }: GenerateOptions): Promise<Generated> {
    return (await this.#runner.call('generate', this.#id, [prompt, rest], { signal, onToken })) as Generated;
  }
  async inspect(prompt: string, { signal, ...rest }: { top?: number; signal?: AbortSignal } = {}): Promise<Inspection> {
    const told = (await this.#runner.call('inspect', this.#id, [prompt, rest], { signal })) as
      { tokens: Token[]; next: TokenProbability[]; lens: TokenProbability[][][]; maps: Float32Array[] };
    return inspection(told.tokens, told.next, told.lens, told.maps);
  }
  close(): void {
    this.#runner.call('close', this.#id, []).catch(() => undefined); // it is gone already then
  }
}

interface LayersDescription {
  model: number;
  layers: LayerInfo[];
  inputShape: number[];
  classes: string[];
}

class WorkerSequentialModel implements SequentialModelInWorker {
  readonly layers: readonly LayerInfo[];
  readonly inputShape: readonly number[];
  readonly classes: readonly string[];
  readonly #runner: WorkerRunner;
  readonly #id: number;

  constructor(runner: WorkerRunner, told: LayersDescription) {
    this.#runner = runner;
    this.#id = told.model;
    this.layers = told.layers;
    this.inputShape = told.inputShape;
    this.classes = told.classes;
  }

  async run(input: Float32Array): Promise<SequentialRun> {
    return (await this.#runner.call('run', this.#id, [input])) as SequentialRun;
  }
  close(): void {
    this.#runner.call('close', this.#id, []).catch(() => undefined);
  }
}

export async function loadRunnerInWorker(options: LoadOptions = {}): Promise<RunnerInWorker> {
  if (typeof Worker === 'undefined') throw new BallastError('unsupported', 'there are no Workers here: use loadRunner()');
  const runner = new WorkerRunner(new Worker(new URL('./run_worker.ts', import.meta.url), { type: 'module' }));
  const module = options.module instanceof URL ? options.module.href : options.module;
  await runner.call('load', undefined, [module === undefined ? {} : { module }]);
  return runner;
}
