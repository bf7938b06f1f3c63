// Two archives, tensor by tensor: each pair is compared by the module, and what is left over is paired by its digests.
import { BallastError } from './error.ts';
import { real, type LocalArchive } from './archive.ts';
import type { DiffEntry, DiffOptions, DiffReport, TensorInfo } from './types.ts';

const alike = (tensor: TensorInfo): string => `${tensor.dtype} ${tensor.scheme ?? ''} ${tensor.bytes} ${tensor.shape.join(',')}`;

export function diffArchives(a: LocalArchive, b: LocalArchive, options: DiffOptions): Promise<DiffReport> {
  if (a.engine !== b.engine) throw new BallastError('invalid_argument', 'both archives must be opened by the same module');
  return a.use(async () => {
    await b.ready(options.signal);
    await a.ready(options.signal); // opening b may have replaced the instance
    return await new Comparison(a, b, options).run();
  }, options.signal);
}

class Comparison {
  readonly #a: LocalArchive;
  readonly #b: LocalArchive;
  readonly #options: DiffOptions;
  #done = 0;
  readonly #total: number;

  constructor(a: LocalArchive, b: LocalArchive, options: DiffOptions) {
    this.#a = a;
    this.#b = b;
    this.#options = options;
    this.#total = [...a.tensors, ...b.tensors].reduce((sum, tensor) => sum + tensor.bytes, 0);
  }

  async run(): Promise<DiffReport> {
    const namesA = new Set(this.#a.tensors.map((tensor) => tensor.name));
    const places = new Map(this.#b.tensors.map((tensor, index) => [tensor.name, index]));
    const onlyB = this.#b.tensors.filter((tensor) => !namesA.has(tensor.name));
    const entries: DiffEntry[] = [];
    for (const [index, tensor] of this.#a.tensors.entries()) {
      const other = places.get(tensor.name);
      entries.push(other === undefined ? { kind: 'only_in_a', nameA: tensor.name, nameB: '', note: '' }
                                       : await this.#compare(index, other));
    }
    const found = await this.#findRenamed(entries, onlyB);
    for (const tensor of onlyB) {
      if (!found.has(tensor.name)) entries.push({ kind: 'only_in_b', nameA: '', nameB: tensor.name, note: '' });
    }
    const equal = entries.every(({ kind, change }) => kind === 'same' || (kind === 'changed' && change?.withinTolerance === true));
    return { entries, equal };
  }

  async #compare(a: number, b: number): Promise<DiffEntry> {
    const { rtol = 0, atol = 0 } = this.#options;
    const request = { op: 'compare', archive: this.#a.handle.archive, tensor: a, otherArchive: this.#b.handle.archive, otherTensor: b,
                      rtol, atol };
    const found = (await this.#work(request, this.#a.tensors[a]!.bytes + this.#b.tensors[b]!.bytes)) as
      Pick<DiffEntry, 'kind' | 'note' | 'change'>;
    const name = this.#a.tensors[a]!.name;
    const entry = { kind: found.kind, nameA: name, nameB: name, note: found.note };
    if (!found.change) return entry;
    const { maxAbs, maxRel, maxUlp } = found.change;
    return { ...entry, change: { ...found.change, maxAbs: real(maxAbs), maxRel: real(maxRel), maxUlp: real(maxUlp) } };
  }

  // Only what has the type and the shape of something left over on the other side is read.
  async #findRenamed(entries: DiffEntry[], onlyB: readonly TensorInfo[]): Promise<Set<string>> {
    const found = new Set<string>();
    const left = entries.filter((entry) => entry.kind === 'only_in_a');
    const kindsA = new Set(left.map((entry) => alike(this.#a.tensors[this.#a.place(entry.nameA)]!)));
    const kindsB = new Set(onlyB.map(alike));
    const available = new Map<string, string[]>();
    for (const tensor of onlyB) {
      if (!kindsA.has(alike(tensor))) continue;
      const digest = await this.#digest(this.#b, tensor);
      available.set(digest, [...(available.get(digest) ?? []), tensor.name]);
    }
    for (const entry of left) {
      const tensor = this.#a.tensors[this.#a.place(entry.nameA)]!;
      if (!kindsB.has(alike(tensor))) continue;
      const name = available.get(await this.#digest(this.#a, tensor))?.shift();
      if (name === undefined) continue;
      Object.assign(entry, { kind: 'renamed', nameB: name });
      found.add(name);
    }
    return found;
  }

  async #digest(archive: LocalArchive, tensor: TensorInfo): Promise<string> {
    const request = { op: 'digest', archive: archive.handle.archive, tensor: archive.place(tensor.name) };
    return (await this.#work(request, tensor.bytes)) as string;
  }

  async #work(request: object, bytes: number): Promise<unknown> {
    const { signal } = this.#options;
    const result = await this.#a.engine.work(request, signal ? { signal } : {});
    this.#done += bytes;
    this.#options.onProgress?.(this.#done, this.#total);
    return result;
  }
}
