// Where bytes come from: Blobs, buffers, URLs with HTTP ranges, and files in Node.
import { asBallastError, BallastError } from './error.ts';
import type { NamedUrl, OpenOptions, RangeSource, Source } from './types.ts';

export interface ClosableSource extends RangeSource {
  close?(): Promise<void>;
}

class BufferSource implements ClosableSource {
  readonly name: string;
  readonly #bytes: Uint8Array;

  constructor(bytes: Uint8Array, name: string) {
    this.#bytes = bytes;
    this.name = name;
  }
  get size(): number {
    return this.#bytes.length;
  }
  read(offset: number, length: number): Promise<Uint8Array> {
    return Promise.resolve(this.#bytes.subarray(offset, offset + length));
  }
}

class BlobSource implements ClosableSource {
  readonly name: string;
  readonly size: number;
  readonly #blob: Blob;

  constructor(blob: Blob, name: string) {
    this.#blob = blob;
    this.name = name;
    this.size = blob.size;
  }
  async read(offset: number, length: number): Promise<Uint8Array> {
    return new Uint8Array(await this.#blob.slice(offset, offset + length).arrayBuffer());
  }
}

const kProbe = 64 << 10;
const kMostWithoutRanges = 256 << 20;

class UrlSource implements ClosableSource {
  readonly name: string;
  readonly size: number;
  readonly #url: string;
  readonly #label: string;
  readonly #headers: Record<string, string>;
  readonly #tag: string | null;
  #head: Uint8Array | null; // what the first answer brought

  private constructor(url: string, label: string, name: string, size: number, tag: string | null, head: Uint8Array, headers: Record<string, string>) {
    this.#url = url;
    this.#label = label;
    this.name = name;
    this.size = size;
    this.#tag = tag;
    this.#head = head;
    this.#headers = headers;
  }

  // `label` is what errors call it: not the URL where there is a name, because the URL may hold a secret.
  static async open(url: string, options: OpenOptions, name = nameInUrl(url), label = url): Promise<ClosableSource> {
    const headers = options.headers ?? {};
    const answer = await request(url, label, 0, kProbe, headers, options.signal);
    if (answer.status === 206) {
      const size = Number(/\/(\d+)$/.exec(answer.headers.get('content-range') ?? '')?.[1] ?? NaN);
      if (!Number.isSafeInteger(size)) throw new BallastError('io', `${label}: the server does not tell the file's size`);
      const head = new Uint8Array(await answer.arrayBuffer());
      return new UrlSource(url, label, name, size, answer.headers.get('etag'), head, headers);
    }
    if (answer.status === 416) return new BufferSource(new Uint8Array(0), name); // an empty file
    // The server sends all of it, asked for a range or not.
    const size = Number(answer.headers.get('content-length') ?? 0);
    if (size > kMostWithoutRanges) {
      await answer.body?.cancel();
      throw new BallastError('io', `${label}: the server answers no ranges, and ${size} bytes are too many to fetch whole`);
    }
    return new BufferSource(await readAtMost(answer, kMostWithoutRanges, label), name);
  }

  async read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array> {
    const head = this.#head;
    if (head !== null && offset + length <= head.length) return head.subarray(offset, offset + length);
    if (offset !== 0) this.#head = null; // it was read past: opening is over
    const answer = await request(this.#url, this.#label, offset, length, this.#headers, signal);
    const tag = answer.headers.get('etag');
    if (answer.status !== 206 || (this.#tag !== null && tag !== null && tag !== this.#tag)) {
      await answer.body?.cancel();
      throw fileChanged(this.#label);
    }
    return new Uint8Array(await answer.arrayBuffer());
  }
}

function fileChanged(label: string): BallastError {
  return new BallastError('io', `${label}: the file changed on the server; reload to read its new state`);
}

async function request(url: string, label: string, offset: number, length: number, headers: Record<string, string>,
                       signal?: AbortSignal): Promise<Response> {
  const range = `bytes=${offset}-${offset + length - 1}`;
  const answer = await fetch(url, { headers: { ...headers, Range: range }, ...(signal ? { signal } : {}) });
  if (answer.ok || answer.status === 416) return answer;
  await answer.body?.cancel();
  if (answer.status === 409) throw fileChanged(label); // as `ballast lens` says it
  const code = answer.status === 404 || answer.status === 410 ? 'not_found' : 'io';
  throw new BallastError(code, `${label}: the server answers ${answer.status} ${answer.statusText}`.trimEnd());
}

async function readAtMost(answer: Response, most: number, label: string): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = answer.body?.getReader();
  for (;;) {
    const part = await reader?.read();
    if (part === undefined || part.done) break;
    size += part.value.length;
    if (size > most) {
      await reader?.cancel();
      throw new BallastError('io', `${label}: the server answers no ranges, and more than ${most} bytes are too many to fetch whole`);
    }
    chunks.push(part.value);
  }
  const all = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    all.set(chunk, at);
    at += chunk.length;
  }
  return all;
}

// The part of node:fs/promises that is used, so that the package needs no types of Node.
interface NodeFile {
  read(buffer: Uint8Array, offset: number, length: number, position: number): Promise<{ bytesRead: number }>;
  stat(): Promise<{ size: number; isFile(): boolean }>;
  close(): Promise<void>;
}
interface NodeFiles {
  open(path: string | URL): Promise<NodeFile>;
}

class FileSource implements ClosableSource {
  readonly name: string;
  readonly size: number;
  readonly #file: NodeFile;

  private constructor(name: string, size: number, file: NodeFile) {
    this.name = name;
    this.size = size;
    this.#file = file;
  }

  static async open(path: string | URL): Promise<ClosableSource> {
    const library = 'node:fs/promises'; // a name that bundlers for browsers do not follow
    const files = (await import(/* @vite-ignore */ library)) as NodeFiles;
    const file = await files.open(path);
    const { size, isFile } = await file.stat().then((stat) => ({ size: stat.size, isFile: stat.isFile() }));
    if (!isFile) {
      await file.close();
      throw new BallastError('io', `${String(path)}: this is not a file`);
    }
    return new FileSource(nameInUrl(String(path)), size, file);
  }

  async read(offset: number, length: number): Promise<Uint8Array> {
    const bytes = new Uint8Array(length);
    let at = 0;
    while (at < length) {
      const { bytesRead } = await this.#file.read(bytes, at, length - at, offset + at);
      if (bytesRead === 0) break;
      at += bytesRead;
    }
    return bytes.subarray(0, at);
  }
  close(): Promise<void> {
    return this.#file.close();
  }
}

function nameInUrl(url: string): string {
  const path = url.replace(/[?#].*$/, '');
  const name = path.slice(path.lastIndexOf('/') + 1);
  try {
    return decodeURIComponent(name) || url;
  } catch {
    return name || url;
  }
}

function openAddress(address: string, options: OpenOptions): Promise<ClosableSource> {
  if (/^(https?|blob|data):/i.test(address)) return UrlSource.open(address, options);
  const base = (globalThis as { location?: { href: string } }).location?.href;
  const isNode = typeof (globalThis as { process?: { versions?: { node?: string } } }).process?.versions?.node === 'string';
  if (isNode && base === undefined) return FileSource.open(address.startsWith('file:') ? new URL(address) : address);
  return UrlSource.open(new URL(address, base).href, options);
}

function isRangeSource(source: unknown): source is RangeSource {
  return typeof (source as RangeSource | null)?.read === 'function' && typeof (source as RangeSource).size === 'number';
}

function isNamedUrl(source: unknown): source is NamedUrl {
  return typeof (source as Partial<NamedUrl> | null)?.url === 'string' && typeof (source as Partial<NamedUrl>).name === 'string';
}

async function openOne(source: unknown, options: OpenOptions): Promise<ClosableSource> {
  if (source instanceof Uint8Array) return new BufferSource(source, options.name ?? 'memory');
  if (source instanceof ArrayBuffer) return new BufferSource(new Uint8Array(source), options.name ?? 'memory');
  if (isRangeSource(source)) return source;
  if (source instanceof Blob) return new BlobSource(source, options.name ?? (source as Partial<File>).name ?? 'memory');
  if (typeof source === 'string' || source instanceof URL) return await openAddress(String(source), options);
  if (isNamedUrl(source)) return await UrlSource.open(source.url, options, source.name, source.name);
  throw new BallastError('invalid_argument', 'open takes a Blob, Files, a URL, a buffer or a RangeSource');
}

/** The sources of a set, that which stands for it first. */
export async function openSources(source: Source, options: OpenOptions): Promise<ClosableSource[]> {
  const all: readonly unknown[] = Array.isArray(source) ? source : [source];
  if (all.length === 0) throw new BallastError('invalid_argument', 'there is no file to open');
  const opened: ClosableSource[] = [];
  try {
    for (const one of all) opened.push(await openOne(one, all.length === 1 ? options : { ...options, name: undefined } as OpenOptions));
  } catch (thrown) {
    await closeSources(opened);
    if (thrown instanceof Error && (thrown as { code?: string }).code === 'ENOENT') {
      throw new BallastError('not_found', thrown.message);
    }
    throw asBallastError(thrown, 'open');
  }
  const first = opened[chooseMain(opened.map((one) => one.name))]!;
  return [first, ...opened.filter((one) => one !== first)];
}

export async function closeSources(sources: readonly ClosableSource[]): Promise<void> {
  await Promise.all(sources.map((source) => source.close?.().catch(() => undefined)));
}

/** Which file of a set stands for it: its index, the first of its parts, or the only one that may hold weights. */
export function chooseMain(names: readonly string[]): number {
  const rules: ((name: string) => boolean)[] = [
    (name) => name.endsWith('.index.json'),
    (name) => name === 'model.safetensors' || name === 'pytorch_model.bin',
    (name) => /-0*1-of-\d+\.\w+$/.test(name),
    (name) => name.endsWith('.json') && names.includes(name.replace(/\.json$/, '.npz')),
    (name) => /\.(safetensors|gguf|bpk|gptrs|npz|npy|netcl|pt|pth|bin|mpk)$/i.test(name),
  ];
  for (const rule of rules) {
    const found = names.findIndex(rule);
    if (found !== -1) return found;
  }
  return 0;
}
