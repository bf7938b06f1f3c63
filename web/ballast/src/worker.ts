// The module in a Worker: carries out what the page calls.
import { LocalArchive } from './archive.ts';
import { asBallastError } from './error.ts';
import { load, type LocalBallast } from './local.ts';
import type { Call, FromWorker, ToWorker } from './messages.ts';
import type { ConvertOptions, DiffOptions, LoadOptions, OpenOptions, Source } from './types.ts';

interface Port {
  postMessage(message: FromWorker, transfer?: Transferable[]): void;
  addEventListener(type: 'message', listener: (event: MessageEvent<ToWorker>) => void): void;
}
const port = globalThis as unknown as Port;

let ballast: LocalBallast | null = null;
let last = 0;
const archives = new Map<number, LocalArchive>();
const running = new Map<number, AbortController>();
const waiting = new Map<number, { resolve(): void; reject(reason: Error): void }>();

function archiveOf(id: number | undefined): LocalArchive {
  const archive = archives.get(id ?? -1);
  if (archive === undefined) throw new Error('this archive is closed');
  return archive;
}

function description(archive: LocalArchive): object {
  const { format, version, producer, bytes, files, metadata, config, tensors, model, sizes } = archive;
  return { format, version, producer, bytes, files, metadata, config, tensors, model, sizes };
}

async function openArchive(source: Source, options: OpenOptions): Promise<object> {
  const archive = await ballast!.open(source, options);
  archives.set(++last, archive);
  return { archive: last, ...description(archive) };
}

// One chunk at a time: the page says when it has been taken.
function chunkSink(id: number): (chunk: Uint8Array) => Promise<void> {
  return (chunk) => new Promise((resolve, reject) => {
    waiting.set(id, { resolve, reject });
    port.postMessage({ id, chunk }, [chunk.buffer as ArrayBuffer]);
  });
}

async function carryOut({ id, method, archive, args }: Call): Promise<unknown> {
  const controller = new AbortController();
  running.set(id, controller);
  const onProgress = (done: number, total: number) => port.postMessage({ id, progress: [done, total] });
  const work = { signal: controller.signal, onProgress };
  switch (method) {
    case 'load':
      ballast = await load(args[0] as LoadOptions);
      return null;
    case 'open': return await openArchive(args[0] as Source, { ...(args[1] as OpenOptions), signal: controller.signal });
    case 'formats': return await ballast!.formats();
    case 'diff': {
      const [a, b, options] = args as [number, number, DiffOptions];
      return await ballast!.diff(archiveOf(a), archiveOf(b), { ...options, ...work });
    }
    case 'stats': return await archiveOf(archive).stats(args[0] as string, { ...(args[1] as object), ...work });
    case 'values': return await archiveOf(archive).values(args[0] as string, args[1] as [], { signal: controller.signal });
    case 'singularValues': return await archiveOf(archive).singularValues(args[0] as string, args[1] as [], work);
    case 'scales': return await archiveOf(archive).scales(args[0] as string, args[1] as number, args[2] as number);
    case 'payload': return await archiveOf(archive).payload(args[0] as string, args[1] as object, work);
    case 'toNpy': return await archiveOf(archive).toNpy(args[0] as string, work);
    case 'digest': return await archiveOf(archive).digest(args[0] as string, work);
    case 'verify': return await archiveOf(archive).verify({ ...(args[0] as object), ...work });
    case 'convert': return await archiveOf(archive).convert({ ...(args[0] as ConvertOptions), ...work }, chunkSink(id));
    case 'close':
      await archiveOf(archive).close();
      archives.delete(archive!);
      return null;
    default: throw new Error(`there is no method ${method}`);
  }
}

port.addEventListener('message', ({ data }) => {
  if ('cancel' in data) {
    running.get(data.cancel)?.abort();
    return;
  }
  if ('taken' in data) {
    const waits = waiting.get(data.taken);
    waiting.delete(data.taken);
    if (data.failed === undefined) waits?.resolve();
    else waits?.reject(new Error(data.failed));
    return;
  }
  const { id } = data;
  carryOut(data).then(
    (result) => port.postMessage({ id, result }),
    (thrown: unknown) => {
      const { code, message, remedies } = asBallastError(thrown, data.method);
      port.postMessage({ id, error: { code, message, remedies } });
    },
  ).finally(() => {
    running.delete(id);
    if (ballast !== null) port.postMessage({ traffic: { ...ballast.traffic } });
  });
});
