// The interface of the package. Everything that reads bytes is asynchronous and reads only the ranges it needs.

/** What can be opened. Of several files, those beside the first are its shards or the other half of its pair. */
export type Source = Blob | readonly File[] | URL | string | ArrayBuffer | Uint8Array | RangeSource | readonly RangeSource[] |
  NamedUrl | readonly NamedUrl[];

/** A file at a URL that does not end in its name. */
export interface NamedUrl {
  readonly name: string;
  readonly url: string;
}

/** Bytes anywhere: for sources of your own, not in a Worker. `read` gives exactly `length` bytes or rejects. */
export interface RangeSource {
  readonly name: string;
  readonly size: number;
  read(offset: number, length: number, signal?: AbortSignal): Promise<Uint8Array>;
}

export interface OpenOptions {
  /** A file name for buffers and Blobs, which have none: only a hint where two formats look alike. */
  name?: string;
  /** For URLs. */
  headers?: Record<string, string>;
  signal?: AbortSignal;
}

/** The library's codes; `trap`: the module itself failed and was replaced. */
export type ErrorCode =
  | 'not_found' | 'unknown_format' | 'corrupt' | 'unsupported' | 'invalid_argument' | 'lossy' | 'exists' | 'io'
  | 'out_of_memory' | 'cancelled' | 'trap';

/** What was rejected: `error instanceof BallastError`. */
export interface BallastErrorFields {
  readonly code: ErrorCode;
  readonly message: string;
  /** What would help, as stable words (`allow_half`) with their text. */
  readonly remedies: readonly Remedy[];
}
export interface Remedy {
  word: string;
  text: string;
}

/** A metadata value with its type: 64-bit integers are bigint where a number would round them. */
export type MetaValue =
  | { type: 'string'; value: string }
  | { type: 'int' | 'uint'; value: number | bigint }
  | { type: 'float'; value: number }
  | { type: 'bool'; value: boolean }
  | { type: 'array'; element: string; count: number; values: readonly MetaElement[]; leftOut: number };
export type MetaElement = string | number | bigint | boolean | readonly MetaElement[];
export interface MetaEntry {
  key: string;
  value: MetaValue;
}

export interface TensorInfo {
  name: string;
  /** "f32", "bf16", "q4_k", ... */
  dtype: string;
  shape: readonly number[];
  elements: number;
  /** Of the canonical payload: little-endian, row-major, uncompressed. */
  bytes: number;
  /** Of the stored bytes in their file. */
  offset: number;
  /** Position in `Archive.files`. */
  file: number;
  /** Bytes in the file: fewer than `bytes` where compressed. */
  storedBytes: number;
  deflated: boolean;
  /** False for types without arithmetic, of which `stats` and `values` say nothing. */
  numeric: boolean;
  /** Set for block types: elements and bytes of one block. */
  quantised?: { blockElements: number; blockBytes: number };
  /** How packed bytes are to be read, where the file says so. */
  scheme?: string;
}

export interface Finding {
  level: 'note' | 'warning' | 'error';
  /** A stable word: "overlap", "hole", "non_finite", ... */
  code: string;
  offset: number;
  /** The tensor, or "" where the finding is about the file. */
  where: string;
  text: string;
}

/** What a file that holds a language model says of it; absent fields are not told. */
export interface ModelSummary {
  family: string;
  name: string;
  parameters: number;
  context?: number;
  layers?: number;
  width?: number;
  heads?: number;
  kvHeads?: number;
  experts?: number;
  vocabulary?: number;
  fileType: string;
  tokenizer: string;
  hasChatTemplate: boolean;
  weightBytes: number;
  /** Keys and values of one token in all layers, in f32. */
  contextBytesPerToken?: number;
}

/** What the weights would take in another type: matrices whose rows are whole blocks change, the rest stays. */
export interface SizeAt {
  dtype: string;
  bytes: number;
}

export interface Statistics {
  count: number;
  /** Of the finite numbers; NaN where there are none. */
  min: number;
  max: number;
  mean: number;
  /** Of the whole population. */
  std: number;
  absMax: number;
  zeros: number;
  denormals: number;
  nan: number;
  positiveInfinity: number;
  negativeInfinity: number;
  /** Row-major positions of the first that are not finite, at most 16 each. */
  firstNan: readonly number[];
  firstInfinity: readonly number[];
  /** Null where no number is finite. */
  histogram: Histogram | null;
}
export interface Histogram {
  low: number;
  high: number;
  below: number;
  above: number;
  counts: readonly number[];
}

export interface WorkOptions {
  /** Bytes of payload done and to do. */
  onProgress?: (done: number, total: number) => void;
  signal?: AbortSignal;
}
export interface StatsOptions extends WorkOptions {
  /** Bins of the histogram, 24 by default, at most 4096. */
  bins?: number;
}

/** One axis: a whole number takes one position and the axis away; left out: all of it. Ends are exclusive. */
export type AxisRange = number | { begin?: number; end?: number; step?: number };

export interface Values {
  shape: readonly number[];
  dtype: string;
  /** Float64Array where the type does not fit f32 (f64 and integers of 32 and 64 bits), else Float32Array. */
  values: Float32Array | Float64Array;
}

export interface SingularValues {
  rows: number;
  columns: number;
  /** As many as the smaller side has, the largest first. */
  values: Float64Array;
}

export interface ScaleRun {
  /** Of each block in turn, from the first that the range touches. */
  firstBlock: number;
  blockElements: number;
  scales: Float32Array;
  /** Of types that have them: what is subtracted. */
  mins?: Float32Array;
}

export interface VerifyOptions extends WorkOptions {
  /** "structure" reads headers and the container's checksums; "content" also every value. */
  level?: 'structure' | 'content';
}
export interface VerifyReport {
  format: string;
  /** No warning and no error. */
  sound: boolean;
  findings: readonly Finding[];
}

export type DiffKind = 'same' | 'changed' | 'transposed' | 'renamed' | 'only_in_a' | 'only_in_b';
export interface DiffEntry {
  kind: DiffKind;
  /** Empty where the tensor is only in the other. */
  nameA: string;
  nameB: string;
  /** "dtype f32 -> f16", "shape [2, 3] -> [3, 2]" */
  note: string;
  /** Where both can be compared as numbers. */
  change?: TensorChange;
}
export interface TensorChange {
  elements: number;
  differing: number;
  maxAbs: number;
  maxRel: number;
  maxUlp: number;
  withinTolerance: boolean;
}
export interface DiffOptions extends WorkOptions {
  rtol?: number;
  atol?: number;
}
export interface DiffReport {
  entries: readonly DiffEntry[];
  equal: boolean;
}

export interface ConvertOptions extends WorkOptions {
  /** A name from `formats()` with `writes`. */
  format: string;
  /** Names to keep, or what decides. */
  filter?: readonly string[] | RegExp | ((tensor: TensorInfo) => boolean);
  rename?: Readonly<Record<string, string>> | ((name: string) => string);
  /** Every floating tensor becomes this: "f32", "f16", "bf16", "f64". Block types are dequantised first. */
  cast?: string;
  /** Every matrix whose rows are whole blocks becomes this: "q8_0", "q4_k", ... */
  quantise?: string;
  /** Allows what the format cannot hold to be lost; otherwise that is an error with code "lossy". */
  allowLossy?: boolean;
  /** netcl and gpt.rs checkpoints need one. */
  config?: string;
  /** Of the output, for formats that look at it. */
  fileName?: string;
}
/** Where a conversion goes. A WritableStream is written with backpressure and closed at the end (aborted on failure). */
export type Sink = WritableStream<Uint8Array> | ((chunk: Uint8Array) => void | Promise<void>);
export interface ConvertReport {
  sourceFormat: string;
  targetFormat: string;
  tensors: number;
  payloadBytes: number;
  bytes: number;
  notes: readonly string[];
  losses: readonly string[];
}

export interface FormatInfo {
  name: string;
  summary: string;
  extensions: readonly string[];
  writes: boolean;
}

/** An opened file. Calls on one archive may overlap; they are carried out one after the other. */
export interface Archive {
  readonly format: string;
  readonly version: string;
  readonly producer: string;
  /** Of all files together. */
  readonly bytes: number;
  readonly files: readonly { name: string; size: number }[];
  readonly metadata: readonly MetaEntry[];
  /** The model config that the file carries, as its text. */
  readonly config: { schema: string; text: string } | null;
  readonly tensors: readonly TensorInfo[];
  /** Null where the file does not say that it holds a model. */
  readonly model: ModelSummary | null;
  /** Empty of archives with more than 4096 tensors. */
  readonly sizes: readonly SizeAt[];

  stats(name: string, options?: StatsOptions): Promise<Statistics>;
  /** Numbers of a slice, quantised tensors dequantised, at most 2^26 of them: one range per axis, all of it by default. */
  values(name: string, ranges?: readonly AxisRange[], options?: { signal?: AbortSignal }): Promise<Values>;
  /**
   * Of a matrix, or of the two dimensions that `ranges` leave: a smaller side of at most 2048, 2^24 elements in all. The
   * time goes with their product, to about a minute.
   */
  singularValues(name: string, ranges?: readonly AxisRange[], options?: WorkOptions): Promise<SingularValues>;
  /** Scales of the blocks that hold elements [begin, end) in row-major order; null where the type has no blocks. */
  scales(name: string, begin?: number, end?: number): Promise<ScaleRun | null>;
  /** The canonical bytes, or some of them. */
  payload(name: string, range?: { begin?: number; end?: number }, options?: WorkOptions): Promise<Uint8Array>;
  /** An .npy file: numbers as they are where NumPy has the type, otherwise as f32. */
  toNpy(name: string, options?: WorkOptions): Promise<Uint8Array>;
  /** The content digest of a tensor (`ballast hash`), in hexadecimal. */
  digest(name: string, options?: WorkOptions): Promise<string>;
  verify(options?: VerifyOptions): Promise<VerifyReport>;
  convert(options: ConvertOptions, sink: Sink): Promise<ConvertReport>;
  /** Frees what the module holds of it; other calls reject afterwards. */
  close(): Promise<void>;
}

export interface Ballast {
  open(source: Source, options?: OpenOptions): Promise<Archive>;
  diff(a: Archive, b: Archive, options?: DiffOptions): Promise<DiffReport>;
  formats(): Promise<readonly FormatInfo[]>;
  /** Bytes read from sources so far, and calls that read them. */
  readonly traffic: { bytes: number; reads: number };
  close(): Promise<void>;
}

export type ModuleSource = URL | string | ArrayBuffer | Uint8Array | WebAssembly.Module;
export interface LoadOptions {
  /** The module that reads: by default `ballast.wasm` beside the package's JavaScript. */
  module?: ModuleSource;
  /** The one that also writes, which the first conversion loads in its place: `ballast-convert.wasm`. */
  convertModule?: ModuleSource;
}

/*
 * The package exports
 *   load(options?: LoadOptions): Promise<Ballast>          on this thread
 *   loadInWorker(options?: LoadOptions): Promise<Ballast>  in a Worker (browsers), so that a page does not block
 *   open(source, options?), diff(a, b, options?)           the same on one module that is loaded when first needed
 *   class BallastError extends Error implements BallastErrorFields
 */
