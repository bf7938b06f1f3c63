// The module on this thread.
import { LocalArchive } from './archive.ts';
import { diffArchives } from './diff.ts';
import { Engine, type OpenHandle } from './engine.ts';
import { BallastError } from './error.ts';
import { closeSources, openSources, type ClosableSource } from './sources.ts';
import type { Archive, Ballast, DiffOptions, DiffReport, FormatInfo, LoadOptions, ModuleSource, OpenOptions, Source } from './types.ts';

const kMostConfig = 16 << 20;

export class LocalBallast implements Ballast {
  readonly #engine: Engine;

  constructor(engine: Engine) {
    this.#engine = engine;
  }

  get traffic(): { bytes: number; reads: number } {
    return this.#engine.traffic;
  }

  async open(source: Source, options: OpenOptions = {}): Promise<LocalArchive> {
    const sources = await openSources(source, options);
    try {
      const handle: OpenHandle = { sources, config: await configBeside(sources), generation: -1, archive: 0, ids: [] };
      const told = await this.#engine.exclusively(() => this.#engine.open(handle, options.signal));
      return new LocalArchive(this.#engine, handle, told!);
    } catch (thrown) {
      await closeSources(sources);
      throw thrown;
    }
  }

  async diff(a: Archive, b: Archive, options: DiffOptions = {}): Promise<DiffReport> {
    if (!(a instanceof LocalArchive) || !(b instanceof LocalArchive)) {
      throw new BallastError('invalid_argument', 'both archives must be opened by this module');
    }
    return await diffArchives(a, b, options);
  }

  formats(): Promise<readonly FormatInfo[]> {
    return this.#engine.exclusively(async () => {
      await this.#engine.startWriting();
      return (await this.#engine.ask({ op: 'formats' })).ok!['formats'] as FormatInfo[];
    });
  }

  close(): Promise<void> {
    return this.#engine.close();
  }
}

// Weights in a Hugging Face folder have their config in a file of its own.
async function configBeside(sources: readonly ClosableSource[]): Promise<string | undefined> {
  const file = sources.slice(1).find((source) => source.name === 'config.json' && source.size <= kMostConfig);
  return file === undefined ? undefined : new TextDecoder().decode(await file.read(0, file.size));
}

export async function load(options: LoadOptions = {}): Promise<LocalBallast> {
  const reading = options.module ?? new URL('../dist/ballast.wasm', import.meta.url);
  const writing = options.convertModule ?? new URL('../dist/ballast-convert.wasm', import.meta.url);
  return new LocalBallast(await Engine.create(await compile(reading), () => compile(writing)));
}

export async function compile(module: ModuleSource): Promise<WebAssembly.Module> {
  if (module instanceof WebAssembly.Module) return module;
  if (module instanceof ArrayBuffer || module instanceof Uint8Array) return await WebAssembly.compile(module as BufferSource);
  const address = String(module);
  if (address.startsWith('file:')) { // Node's fetch reads no files
    const library = 'node:fs/promises';
    const files = (await import(/* @vite-ignore */ library)) as { readFile(path: URL): Promise<Uint8Array<ArrayBuffer>> };
    return await WebAssembly.compile(await files.readFile(new URL(address)));
  }
  const answer = await fetch(address);
  if (!answer.ok) throw new BallastError('not_found', `${address}: the server answers ${answer.status}; the module is not there`);
  return await WebAssembly.compile(await answer.arrayBuffer());
}
