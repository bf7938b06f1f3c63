// One instance of the module: its memory, and calls with JSON.
import { BallastError } from './error.ts';

interface Exports {
  memory: WebAssembly.Memory;
  _initialize(): void;
  ballast_start(): void;
  ballast_alloc(size: number): number;
  ballast_free(address: number): void;
  ballast_put(source: number, offset: number, address: number, length: number): void;
  ballast_call(address: number, size: number): number;
}

export type MissingRange = [source: number, offset: number, length: number];

export interface Reply {
  ok?: Record<string, unknown>;
  error?: { code: string; message: string; remedies: { word: string; text: string }[] };
  missing?: MissingRange[];
  bytes: Uint8Array<ArrayBuffer>;
}

/** Thrown through the module where it has no memory left: nothing in it can be used afterwards. */
export class ModuleOutOfMemory extends Error {}

// What wasi-libc wants for its standard streams, which nothing here uses.
const kNotSupported = 58;
const wasi = { fd_close: () => kNotSupported, fd_seek: () => kNotSupported, fd_write: () => kNotSupported };

export class Instance {
  readonly #exports: Exports;
  readonly #encoder = new TextEncoder();
  readonly #decoder = new TextDecoder();

  private constructor(exports: Exports) {
    this.#exports = exports;
  }

  static async create(module: WebAssembly.Module): Promise<Instance> {
    const outOfMemory = () => {
      throw new ModuleOutOfMemory('out of memory');
    };
    const decoder = new TextDecoder();
    const patterns = new Map<string, RegExp | null>();
    let memory: WebAssembly.Memory;
    const textAt = (address: number, size: number) => decoder.decode(new Uint8Array(memory.buffer, address >>> 0, size));
    const findPattern = (expression: number, expressionSize: number, text: number, textSize: number): number => {
      const source = textAt(expression, expressionSize);
      if (!patterns.has(source)) patterns.set(source, expressionOf(source));
      const pattern = patterns.get(source);
      return pattern ? Number(pattern.test(textAt(text, textSize))) : -1;
    };
    const parseReal = (address: number, size: number): number => Number(textAt(address, size));
    // What runs models measures its work.
    let words = new Uint32Array(0); // the memory, as it was when it last grew
    const clock = (_id: number, _precision: bigint, address: number): number => {
      if (words.buffer !== memory.buffer) words = new Uint32Array(memory.buffer);
      const nanoseconds = Math.round(performance.now() * 1e6);
      words[address >>> 2] = nanoseconds % 2 ** 32;
      words[(address >>> 2) + 1] = Math.floor(nanoseconds / 2 ** 32);
      return 0;
    };
    const imports = {
      wasi_snapshot_preview1: { ...wasi, clock_time_get: clock },
      ballast: { out_of_memory: outOfMemory, find_pattern: findPattern, parse_real: parseReal },
    };
    const instance = await WebAssembly.instantiate(module, imports);
    const exports = instance.exports as unknown as Exports;
    memory = exports.memory;
    exports._initialize();
    exports.ballast_start();
    return new Instance(exports);
  }

  call(request: object): Reply {
    const text = this.#encoder.encode(JSON.stringify(request));
    const address = this.#copyIn(text);
    const reply = this.#exports.ballast_call(address, text.length) >>> 0;
    this.#exports.ballast_free(address);
    const fields = new Uint32Array(this.#exports.memory.buffer, reply, 4);
    const json = new Uint8Array(this.#exports.memory.buffer, fields[0], fields[1]);
    const bytes = new Uint8Array(this.#exports.memory.buffer, fields[2], fields[3]);
    return { ...(JSON.parse(this.#decoder.decode(json)) as Omit<Reply, 'bytes'>), bytes: bytes.slice() };
  }

  put(source: number, offset: number, bytes: Uint8Array): void {
    this.#exports.ballast_put(source, offset, this.#copyIn(bytes), bytes.length);
  }

  /** Into memory that a call gave the address of. */
  write(address: number, bytes: Uint8Array): void {
    new Uint8Array(this.#exports.memory.buffer, address, bytes.length).set(bytes);
  }

  #copyIn(bytes: Uint8Array): number {
    const address = this.#exports.ballast_alloc(bytes.length) >>> 0;
    if (address === 0) throw new ModuleOutOfMemory('out of memory');
    new Uint8Array(this.#exports.memory.buffer, address, bytes.length).set(bytes);
    return address;
  }
}

// The library's tables begin with (?i) what ignores case, which JavaScript says by a flag.
function expressionOf(source: string): RegExp | null {
  try {
    return source.startsWith('(?i)') ? new RegExp(source.slice(4), 'iu') : new RegExp(source, 'u');
  } catch {
    return null;
  }
}

export function moduleError(thrown: unknown): BallastError {
  const message = thrown instanceof Error ? thrown.message : String(thrown);
  if (thrown instanceof ModuleOutOfMemory) return new BallastError('out_of_memory', 'the module ran out of memory and was replaced');
  return new BallastError('trap', `the module failed and was replaced: ${message}`);
}
