// The page's side of the Worker: the same interface, and nothing that blocks.
import { chosenTensors } from './archive.ts';
import { BallastError, checkSignal } from './error.ts';
import type { Call, FromWorker, ToWorker } from './messages.ts';
import type {
  Archive, AxisRange, Ballast, ConvertOptions, ConvertReport, DiffOptions, DiffReport, FormatInfo, LoadOptions, MetaEntry,
  ModelSummary, OpenOptions, ScaleRun, SingularValues, Sink, SizeAt, Source, Statistics, StatsOptions, TensorInfo, Values, VerifyOptions,
  VerifyReport, WorkOptions,
} from './types.ts';

interface Pending {
  resolve(result: unknown): void;
  reject(reason: BallastError): void;
  onProgress: WorkOptions['onProgress'];
  take: ((chunk: Uint8Array) => Promise<void>) | undefined;
}
interface Going extends WorkOptions {
  archive?: number;
  take?: (chunk: Uint8Array) => Promise<void>;
}

export class WorkerBallast implements Ballast {
  readonly traffic = { bytes: 0, reads: 0 };
  readonly #worker: Worker;
  readonly #pending = new Map<number, Pending>();
  #last = 0;

  constructor(worker: Worker) {
    this.#worker = worker;
    worker.addEventListener('message', (event: MessageEvent<FromWorker>) => this.#hear(event.data));
    worker.addEventListener('error', (event) => this.#fail(event.message || 'it could not be started'));
  }

  call(method: string, args: unknown[], going: Going = {}): Promise<unknown> {
    return new Promise((resolve, reject) => {
      checkSignal(going.signal);
      const id = ++this.#last;
      this.#pending.set(id, { resolve, reject, onProgress: going.onProgress, take: going.take });
      going.signal?.addEventListener('abort', () => this.#say({ cancel: id }), { once: true });
      const call: Call = { id, method, args, ...(going.archive === undefined ? {} : { archive: going.archive }) };
      try {
        this.#say(call);
      } catch (thrown) {
        this.#pending.delete(id);
        reject(new BallastError('invalid_argument', `a Worker cannot be given this: ${String(thrown)}`));
      }
    });
  }

  #say(message: ToWorker): void {
    this.#worker.postMessage(message);
  }

  #hear(message: FromWorker): void {
    if ('traffic' in message) {
      Object.assign(this.traffic, message.traffic);
      return;
    }
    const pending = this.#pending.get(message.id);
    if (pending === undefined) return;
    if ('progress' in message) {
      pending.onProgress?.(...message.progress);
    } else if ('chunk' in message) {
      void this.#take(message.id, pending, message.chunk);
    } else {
      this.#pending.delete(message.id);
      if ('error' in message) pending.reject(new BallastError(message.error.code, message.error.message, message.error.remedies));
      else pending.resolve(message.result);
    }
  }

  async #take(id: number, pending: Pending, chunk: Uint8Array): Promise<void> {
    try {
      await pending.take?.(chunk);
      this.#say({ taken: id });
    } catch (thrown) {
      this.#say({ taken: id, failed: thrown instanceof Error ? thrown.message : String(thrown) });
    }
  }

  #fail(why: string): void {
    for (const { reject } of this.#pending.values()) reject(new BallastError('trap', `the Worker failed: ${why}`));
    this.#pending.clear();
  }

  async open(source: Source, options: OpenOptions = {}): Promise<Archive> {
    const { signal, ...rest } = options;
    const told = (await this.call('open', [sendable(source), rest], signal ? { signal } : {})) as Description;
    return new WorkerArchive(this, told);
  }

  async diff(a: Archive, b: Archive, options: DiffOptions = {}): Promise<DiffReport> {
    if (!(a instanceof WorkerArchive) || !(b instanceof WorkerArchive) || a.ballast !== this || b.ballast !== this) {
      throw new BallastError('invalid_argument', 'both archives must be opened by this module');
    }
    const { signal, onProgress, ...rest } = options;
    return (await this.call('diff', [a.id, b.id, rest], { signal, onProgress } as Going)) as DiffReport;
  }

  async formats(): Promise<readonly FormatInfo[]> {
    return (await this.call('formats', [])) as FormatInfo[];
  }

  async close(): Promise<void> {
    this.#worker.terminate();
    this.#fail('it was closed');
  }
}

// URLs cannot be cloned, and relative ones are relative to the page.
function sendable(source: Source): unknown {
  if (source instanceof URL) return source.href;
  return typeof source === 'string' ? new URL(source, globalThis.location?.href).href : source;
}

type Description = Pick<Archive, 'format' | 'version' | 'producer' | 'bytes' | 'files' | 'metadata' | 'config' | 'tensors' | 'model' |
  'sizes'> & { archive: number };

class WorkerArchive implements Archive {
  readonly ballast: WorkerBallast;
  readonly id: number;
  readonly format: string;
  readonly version: string;
  readonly producer: string;
  readonly bytes: number;
  readonly files: readonly { name: string; size: number }[];
  readonly metadata: readonly MetaEntry[];
  readonly config: { schema: string; text: string } | null;
  readonly tensors: readonly TensorInfo[];
  readonly model: ModelSummary | null;
  readonly sizes: readonly SizeAt[];

  constructor(ballast: WorkerBallast, told: Description) {
    this.ballast = ballast;
    this.id = told.archive;
    this.format = told.format;
    this.version = told.version;
    this.producer = told.producer;
    this.bytes = told.bytes;
    this.files = told.files;
    this.metadata = told.metadata;
    this.config = told.config;
    this.tensors = told.tensors;
    this.model = told.model;
    this.sizes = told.sizes;
  }

  #call(method: string, args: unknown[], going: Going = {}): Promise<unknown> {
    return this.ballast.call(method, args, { ...going, archive: this.id });
  }

  async stats(name: string, options: StatsOptions = {}): Promise<Statistics> {
    const { signal, onProgress, ...rest } = options;
    return (await this.#call('stats', [name, rest], { signal, onProgress } as Going)) as Statistics;
  }
  async values(name: string, ranges: readonly AxisRange[] = [], options: { signal?: AbortSignal } = {}): Promise<Values> {
    return (await this.#call('values', [name, ranges], options)) as Values;
  }
  async singularValues(name: string, ranges: readonly AxisRange[] = [], options: WorkOptions = {}): Promise<SingularValues> {
    return (await this.#call('singularValues', [name, ranges], options)) as SingularValues;
  }
  async scales(name: string, begin = 0, end?: number): Promise<ScaleRun | null> {
    return (await this.#call('scales', [name, begin, end])) as ScaleRun | null;
  }
  async payload(name: string, range: { begin?: number; end?: number } = {}, options: WorkOptions = {}): Promise<Uint8Array> {
    return (await this.#call('payload', [name, range], options)) as Uint8Array;
  }
  async toNpy(name: string, options: WorkOptions = {}): Promise<Uint8Array> {
    return (await this.#call('toNpy', [name], options)) as Uint8Array;
  }
  async digest(name: string, options: WorkOptions = {}): Promise<string> {
    return (await this.#call('digest', [name], options)) as string;
  }
  async verify(options: VerifyOptions = {}): Promise<VerifyReport> {
    const { signal, onProgress, ...rest } = options;
    return (await this.#call('verify', [rest], { signal, onProgress } as Going)) as VerifyReport;
  }

  async convert(options: ConvertOptions, sink: Sink): Promise<ConvertReport> {
    const { signal, onProgress, filter, rename, ...rest } = options;
    // Functions cannot be sent: they are asked here.
    const chosen = chosenTensors(this.tensors, options);
    const names = chosen.keep.map((index) => this.tensors[index]!.name);
    const renamed = Object.fromEntries(chosen.rename.map((name, place) => [names[place]!, name]));
    const sent = { ...rest, ...(filter === undefined ? {} : { filter: names }), ...(rename === undefined ? {} : { rename: renamed }) };
    const writer = typeof sink === 'function' ? null : sink.getWriter();
    const take = async (chunk: Uint8Array): Promise<void> => {
      if (writer === null) return void (await (sink as (chunk: Uint8Array) => void | Promise<void>)(chunk));
      await writer.ready;
      await writer.write(chunk);
    };
    try {
      const report = (await this.#call('convert', [sent], { signal, onProgress, take } as Going)) as ConvertReport;
      await writer?.close();
      return report;
    } catch (thrown) {
      await writer?.abort(thrown).catch(() => undefined);
      throw thrown;
    }
  }

  async close(): Promise<void> {
    await this.#call('close', []);
  }
}

export async function loadInWorker(options: LoadOptions = {}): Promise<Ballast> {
  if (typeof Worker === 'undefined') throw new BallastError('unsupported', 'there are no Workers here: use load()');
  const ballast = new WorkerBallast(new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' }));
  const given = Object.entries(options).map(([key, module]) => [key, module instanceof URL ? module.href : module]);
  await ballast.call('load', [Object.fromEntries(given)]);
  return ballast;
}
