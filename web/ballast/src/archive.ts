// An archive on this thread.
import { BallastError, checkSignal } from './error.ts';
import type { Engine, OpenHandle } from './engine.ts';
import type {
  Archive, AxisRange, ConvertOptions, ConvertReport, MetaElement, MetaEntry, MetaValue, ModelSummary, ScaleRun, SingularValues, Sink,
  SizeAt, Statistics, StatsOptions, TensorInfo, Values, VerifyOptions, VerifyReport, WorkOptions,
} from './types.ts';

/** The module writes what JSON has no number for as texts, and null where there is none. */
export function real(value: unknown): number {
  if (typeof value === 'number') return value;
  return value === 'inf' ? Infinity : value === '-inf' ? -Infinity : NaN;
}

function integer(value: unknown): number | bigint {
  return typeof value === 'string' ? BigInt(value) : (value as number);
}

function element(value: unknown, type: string): MetaElement {
  if (Array.isArray(value)) return value.map((inner) => element(inner, typeof inner === 'string' ? 'text' : 'array'));
  if (type === 'f32' || type === 'f64') return real(value);
  if (type === 'u64' || type === 'i64') return integer(value);
  return value as MetaElement;
}

function metaEntry(entry: { key: string; value: Record<string, unknown> }): MetaEntry {
  const { type, value } = entry.value;
  if (type === 'float') return { key: entry.key, value: { type, value: real(value) } };
  if (type === 'int' || type === 'uint') return { key: entry.key, value: { type, value: integer(value) } };
  if (type !== 'array') return { key: entry.key, value: entry.value as unknown as MetaValue };
  const array = entry.value as unknown as Extract<MetaValue, { type: 'array' }>;
  return { key: entry.key, value: { ...array, values: array.values.map((one) => element(one, array.element)) } };
}

export class LocalArchive implements Archive {
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
  readonly engine: Engine;
  readonly handle: OpenHandle;
  readonly #index: ReadonlyMap<string, number>;
  #closed = false;

  constructor(engine: Engine, handle: OpenHandle, told: Record<string, unknown>) {
    this.engine = engine;
    this.handle = handle;
    this.format = told['format'] as string;
    this.version = told['version'] as string;
    this.producer = told['producer'] as string;
    this.bytes = told['bytes'] as number;
    this.files = told['files'] as { name: string; size: number }[];
    this.metadata = (told['metadata'] as { key: string; value: Record<string, unknown> }[]).map(metaEntry);
    this.config = told['config'] as { schema: string; text: string } | null;
    this.tensors = told['tensors'] as TensorInfo[];
    this.model = told['model'] as ModelSummary | null;
    this.sizes = told['sizes'] as SizeAt[];
    this.#index = new Map(this.tensors.map((tensor, index) => [tensor.name, index]));
  }

  /** Runs `operation` alone, with this archive open in the module. */
  use<T>(operation: () => Promise<T>, signal?: AbortSignal, writes = false): Promise<T> {
    return this.engine.exclusively(async () => {
      checkSignal(signal);
      if (writes) await this.engine.startWriting();
      await this.ready(signal);
      return await operation();
    });
  }

  /** Inside `exclusively`: opens again what a replaced instance lost. */
  async ready(signal?: AbortSignal): Promise<void> {
    if (this.#closed) throw new BallastError('invalid_argument', 'this archive is closed');
    const again = await this.engine.open(this.handle, signal);
    if (again !== null && (again['tensors'] as TensorInfo[]).length !== this.tensors.length) {
      throw new BallastError('io', 'the file changed meanwhile: open it again');
    }
  }

  place(name: string): number {
    const index = this.#index.get(name);
    if (index === undefined) throw new BallastError('not_found', `there is no tensor "${name}"`);
    return index;
  }

  #of(name: string): { archive: number; tensor: number } {
    return { archive: this.handle.archive, tensor: this.place(name) };
  }

  stats(name: string, options: StatsOptions = {}): Promise<Statistics> {
    return this.use(async () => {
      const request = { op: 'stats', ...this.#of(name), bins: options.bins ?? 24 };
      const found = (await this.engine.work(request, options)) as Record<string, unknown>;
      for (const key of ['min', 'max', 'mean', 'std', 'absMax']) found[key] = real(found[key]);
      return found as unknown as Statistics;
    }, options.signal);
  }

  values(name: string, ranges: readonly AxisRange[] = [], options: { signal?: AbortSignal } = {}): Promise<Values> {
    return this.use(async () => {
      const reply = await this.engine.ask({ op: 'values', ...this.#of(name), slice: sliceText(ranges) }, options);
      const { shape, narrow } = reply.ok as { shape: number[]; narrow: boolean };
      const buffer = reply.bytes.buffer;
      const values = narrow ? new Float32Array(buffer) : new Float64Array(buffer);
      return { shape, dtype: this.tensors[this.place(name)]!.dtype, values };
    }, options.signal);
  }

  singularValues(name: string, ranges: readonly AxisRange[] = [], options: WorkOptions = {}): Promise<SingularValues> {
    return this.use(async () => {
      const request = { op: 'singular', ...this.#of(name), slice: sliceText(ranges) };
      const { rows, columns, values } = (await this.engine.work(request, options)) as { rows: number; columns: number; values: unknown[] };
      return { rows, columns, values: Float64Array.from(values, real) };
    }, options.signal);
  }

  scales(name: string, begin = 0, end?: number): Promise<ScaleRun | null> {
    return this.use(async () => {
      const tensor = this.tensors[this.place(name)]!;
      if (!tensor.quantised) return null;
      const reply = await this.engine.ask({ op: 'scales', ...this.#of(name), begin, end: end ?? tensor.elements });
      const told = reply.ok as { scales: boolean; firstBlock: number; count: number; blockElements: number; hasMin: boolean };
      if (!told.scales) return null;
      const run = { firstBlock: told.firstBlock, blockElements: told.blockElements,
                    scales: new Float32Array(reply.bytes.buffer, 0, told.count) };
      return told.hasMin ? { ...run, mins: new Float32Array(reply.bytes.buffer, 4 * told.count, told.count) } : run;
    });
  }

  payload(name: string, range: { begin?: number; end?: number } = {}, options: WorkOptions = {}): Promise<Uint8Array> {
    return this.use(async () => {
      const tensor = this.tensors[this.place(name)]!;
      const begin = range.begin ?? 0;
      const end = range.end ?? tensor.bytes;
      const reply = await this.engine.ask({ op: 'payload', ...this.#of(name), begin, end }, options);
      options.onProgress?.(end - begin, end - begin);
      return reply.bytes;
    }, options.signal);
  }

  async toNpy(name: string, options: WorkOptions = {}): Promise<Uint8Array> {
    const parts: Uint8Array[] = [];
    await this.use(() => this.#convert({
      op: 'convert', archive: this.handle.archive, format: 'npy', fileName: 'tensor.npy', keep: [this.place(name)], rename: [],
      allowLossy: true, plain: true, ...(this.tensors[this.place(name)]!.quantised ? { cast: 'f32' } : {}),
    }, options, async (bytes) => void parts.push(bytes)), options.signal, true);
    return joined(parts);
  }

  digest(name: string, options: WorkOptions = {}): Promise<string> {
    return this.use(async () => (await this.engine.work({ op: 'digest', ...this.#of(name) }, options)) as string, options.signal);
  }

  verify(options: VerifyOptions = {}): Promise<VerifyReport> {
    return this.use(async () => {
      const request = { op: 'verify', archive: this.handle.archive, level: options.level ?? 'structure' };
      return (await this.engine.work(request, options)) as VerifyReport;
    }, options.signal);
  }

  async convert(options: ConvertOptions, sink: Sink): Promise<ConvertReport> {
    const { keep, rename } = chosenTensors(this.tensors, options);
    const request = {
      op: 'convert', format: options.format, fileName: options.fileName ?? 'converted', keep, rename,
      allowLossy: options.allowLossy ?? false,
      ...(options.cast === undefined ? {} : { cast: options.cast }),
      ...(options.quantise === undefined ? {} : { quantise: options.quantise }),
      ...(options.config === undefined ? {} : { config: options.config }),
    };
    const writer = typeof sink === 'function' ? null : sink.getWriter();
    const take = async (bytes: Uint8Array): Promise<void> => {
      if (writer === null) return void (await (sink as (chunk: Uint8Array) => void | Promise<void>)(bytes));
      await writer.ready;
      await writer.write(bytes);
    };
    try {
      const report = await this.use(() => this.#convert({ ...request, archive: this.handle.archive }, options, take), options.signal, true);
      await writer?.close();
      return report;
    } catch (thrown) {
      await writer?.abort(thrown).catch(() => undefined);
      throw thrown;
    }
  }

  async #convert(request: object, options: WorkOptions, take: (bytes: Uint8Array) => Promise<void>): Promise<ConvertReport> {
    return (await this.engine.work(request, options, take)) as ConvertReport;
  }

  close(): Promise<void> {
    return this.engine.exclusively(async () => {
      if (this.#closed) return;
      this.#closed = true;
      await this.engine.release(this.handle);
    });
  }
}

/** What a conversion keeps, and under which names. */
export function chosenTensors(tensors: readonly TensorInfo[], options: ConvertOptions): { keep: number[]; rename: string[] } {
  const { filter, rename } = options;
  const names = Array.isArray(filter) ? new Set(filter as readonly string[]) : null;
  const keeps = (tensor: TensorInfo): boolean => {
    if (filter === undefined) return true;
    if (names !== null) return names.has(tensor.name);
    return filter instanceof RegExp ? new RegExp(filter.source, filter.flags.replace(/[gy]/g, '')).test(tensor.name)
                                    : (filter as (tensor: TensorInfo) => boolean)(tensor);
  };
  const keep = tensors.flatMap((tensor, index) => (keeps(tensor) ? [index] : []));
  if (rename === undefined) return { keep, rename: [] };
  const nameOf = (name: string): string => {
    if (typeof rename === 'function') return rename(name);
    return Object.hasOwn(rename, name) ? rename[name]! : name;
  };
  return { keep, rename: keep.map((index) => nameOf(tensors[index]!.name)) };
}

function sliceText(ranges: readonly AxisRange[]): string {
  const axes = ranges.map((axis) => {
    if (typeof axis === 'number') return String(axis);
    return `${axis.begin ?? ''}:${axis.end ?? ''}${axis.step === undefined ? '' : `:${axis.step}`}`;
  });
  return `[${axes.join(', ')}]`;
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  if (parts.length === 1) return parts[0]!;
  const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
