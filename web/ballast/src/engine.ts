// The module with what keeps it going: it fetches the bytes that calls lack, carries work on step by step, and replaces
// an instance that failed.
import { asBallastError, BallastError, checkSignal } from './error.ts';
import { Instance, moduleError, type MissingRange, type Reply } from './instance.ts';
import { closeSources, type ClosableSource } from './sources.ts';
import type { ErrorCode, WorkOptions } from './types.ts';

const kGap = 64 << 10; // bytes that are rather read than asked around
const kFirstWindow = 64 << 10;
const kLargestWindow = 8 << 20;
const kMostPerRead = 64 << 20;
const kReadsAtOnce = 6;
const kMostHeader = 1 << 30; // bytes that opening may read
const kMostRounds = 1_000_000;

interface KnownSource {
  source: ClosableSource;
  end: number; // of what was read last
  window: number; // what is read at least while opening
}

/** What the module knows of one archive: gone when the instance is replaced, and made anew then. */
export interface OpenHandle {
  sources: readonly ClosableSource[];
  config: string | undefined;
  generation: number;
  archive: number;
  ids: readonly number[];
}

interface Asking {
  signal?: AbortSignal | undefined;
  opening?: boolean;
}

export class Engine {
  readonly traffic = { bytes: 0, reads: 0 };
  #module: WebAssembly.Module;
  #loadWriting: (() => Promise<WebAssembly.Module>) | null; // null: the module writes already
  #instance: Instance | null;
  #generation = 0;
  #known = new Map<number, KnownSource>();
  #queue: Promise<unknown> = Promise.resolve();
  #closed = false;
  #lastPause = 0;

  private constructor(module: WebAssembly.Module, instance: Instance, loadWriting: () => Promise<WebAssembly.Module>) {
    this.#module = module;
    this.#loadWriting = loadWriting;
    this.#instance = instance;
  }

  static async create(module: WebAssembly.Module, loadWriting: () => Promise<WebAssembly.Module>): Promise<Engine> {
    return new Engine(module, await Instance.create(module), loadWriting);
  }

  /** Inside `exclusively`: from now on it is the module that also writes. Archives have to be opened again in it. */
  async startWriting(): Promise<void> {
    if (this.#loadWriting === null) return;
    this.#module = await this.#loadWriting();
    this.#loadWriting = null;
    await this.#replace();
  }

  /** One operation at a time: they share what is fetched. */
  exclusively<T>(operation: () => Promise<T>): Promise<T> {
    const run = async (): Promise<T> => {
      if (this.#closed) throw new BallastError('invalid_argument', 'the module is closed');
      try {
        return await operation();
      } finally {
        await this.ask({ op: 'trim' }).catch(() => undefined); // what was thrown before says more
      }
    };
    const result = this.#queue.then(run, run);
    this.#queue = result.catch(() => undefined);
    return result;
  }

  close(): Promise<void> {
    return this.#queue.then(() => {
      this.#closed = true;
      this.#instance = null;
      this.#known.clear();
    }) as Promise<void>;
  }

  /** Opens, or opens again after the instance was replaced. */
  async open(handle: OpenHandle, signal?: AbortSignal): Promise<Record<string, unknown> | null> {
    if (handle.generation === this.#generation) return null;
    const generation = this.#generation;
    const ids: number[] = [];
    try {
      for (const source of handle.sources) {
        const reply = await this.ask({ op: 'source', size: source.size, name: source.name });
        const id = reply.ok!['source'] as number;
        this.#known.set(id, { source, end: 0, window: kFirstWindow });
        ids.push(id);
      }
      const request = { op: 'open', sources: ids, ...(handle.config === undefined ? {} : { config: handle.config }) };
      const { ok } = await this.ask(request, { signal, opening: true });
      Object.assign(handle, { generation, ids, archive: ok!['archive'] as number });
      return ok!;
    } catch (thrown) {
      if (generation === this.#generation) await this.#forget(ids);
      throw thrown;
    }
  }

  async release(handle: OpenHandle): Promise<void> {
    if (handle.generation === this.#generation) {
      await this.ask({ op: 'remove', id: handle.archive });
      await this.#forget(handle.ids);
    }
    handle.generation = -1;
    await closeSources(handle.sources);
  }

  async #forget(ids: readonly number[]): Promise<void> {
    for (const id of ids) {
      await this.ask({ op: 'remove', id });
      this.#known.delete(id);
    }
  }

  /** Calls until nothing is missing. */
  async ask(request: object, how: Asking = {}): Promise<Reply> {
    let read = 0;
    for (let round = 0; round < kMostRounds; ++round) {
      checkSignal(how.signal);
      const reply = await this.#call(request);
      if (reply.error) {
        throw new BallastError(reply.error.code as ErrorCode, reply.error.message, reply.error.remedies);
      }
      if (!reply.missing) return reply;
      read += await this.#fetch(reply.missing, how);
      if (how.opening && read > kMostHeader) {
        throw new BallastError('out_of_memory', `opening the file wants more than ${kMostHeader} bytes of it`);
      }
    }
    throw new BallastError('trap', 'the module asks for bytes without end');
  }

  /** Carries work on until it is finished; `take` gets the bytes of each step. */
  async work(request: object, options: WorkOptions, take?: (bytes: Uint8Array) => Promise<void>): Promise<unknown> {
    const id = (await this.ask(request)).ok!['work'] as number;
    const generation = this.#generation;
    try {
      for (;;) {
        const { ok, bytes } = await this.ask({ op: 'step', work: id }, { signal: options.signal });
        await this.ask({ op: 'trim' });
        if (take && bytes.length !== 0) await take(bytes);
        options.onProgress?.(ok!['done'] as number, ok!['total'] as number);
        if (ok!['finished']) return ok!['result'];
        await this.#pause();
      }
    } finally {
      if (generation === this.#generation) await this.ask({ op: 'remove', id });
    }
  }

  async #call(request: object): Promise<Reply> {
    if (this.#instance === null) throw new BallastError('invalid_argument', 'the module is closed');
    try {
      return this.#instance.call(request);
    } catch (thrown) {
      await this.#replace();
      throw moduleError(thrown);
    }
  }

  async #replace(): Promise<void> {
    ++this.#generation;
    this.#known.clear();
    this.#instance = await Instance.create(this.#module);
  }

  // Lets the page breathe where all bytes were at hand.
  async #pause(): Promise<void> {
    if (performance.now() - this.#lastPause < 16) return;
    await new Promise((resolve) => setTimeout(resolve));
    this.#lastPause = performance.now();
  }

  async #fetch(missing: readonly MissingRange[], how: Asking): Promise<number> {
    const reads = how.opening ? this.#readAhead(missing) : merge(missing);
    let next = 0;
    let sum = 0;
    const reader = async (): Promise<void> => {
      for (;;) {
        const read = reads[next++];
        if (read === undefined) return;
        await this.#read(read, how.signal);
        sum += read[2];
      }
    };
    await Promise.all(Array.from({ length: Math.min(kReadsAtOnce, reads.length) }, reader));
    return sum;
  }

  async #read([id, offset, length]: MissingRange, signal: AbortSignal | undefined): Promise<void> {
    const known = this.#known.get(id);
    if (known === undefined) throw new BallastError('trap', 'the module asks for a file that it was not given');
    let bytes: Uint8Array;
    try {
      bytes = await known.source.read(offset, length, signal);
    } catch (thrown) {
      throw asBallastError(thrown, known.source.name);
    }
    if (bytes.length !== length) {
      throw new BallastError('io', `${known.source.name}: ${bytes.length} of ${length} bytes at ${offset} could be read; ` +
        'the file was probably changed or cut off meanwhile');
    }
    this.traffic.bytes += length;
    ++this.traffic.reads;
    try {
      this.#instance!.put(id, offset, bytes);
    } catch (thrown) {
      await this.#replace();
      throw moduleError(thrown);
    }
  }

  // Headers are read from front to back, in pieces whose size nobody knows: what follows the last read doubles.
  #readAhead(missing: readonly MissingRange[]): MissingRange[] {
    return merge(missing).map(([id, offset, length]) => {
      const known = this.#known.get(id);
      if (known === undefined) return [id, offset, length];
      known.window = offset === known.end ? Math.min(known.window * 2, kLargestWindow) : kFirstWindow;
      const want = Math.min(Math.max(length, known.window), known.source.size - offset);
      known.end = offset + want;
      return [id, offset, want];
    });
  }
}

/** Ranges in order, together with gaps that cost less than another request, none too long for one. */
export function merge(missing: readonly MissingRange[]): MissingRange[] {
  const sorted = missing.toSorted((a, b) => a[0] - b[0] || a[1] - b[1]);
  const merged: MissingRange[] = [];
  for (const [id, offset, length] of sorted) {
    const last = merged.at(-1);
    const end = last === undefined ? 0 : last[1] + last[2];
    if (last !== undefined && last[0] === id && offset <= end + kGap && offset + length - last[1] <= kMostPerRead) {
      last[2] = Math.max(last[2], offset + length - last[1]);
    } else {
      merged.push([id, offset, length]);
    }
  }
  return merged;
}
