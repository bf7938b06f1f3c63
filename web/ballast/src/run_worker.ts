// The second module in a Worker: carries out what the page calls.
import { asBallastError, BallastError } from './error.ts';
import { loadRunner, type LocalRunner } from './run_local.ts';
import type { FromRunWorker, RunCall, ToRunWorker } from './run_messages.ts';
import type { GenerateOptions, Inspection, SequentialModel, TextModel } from './run_types.ts';
import type { LoadOptions, Source } from './types.ts';

interface Port {
  postMessage(message: FromRunWorker, transfer?: Transferable[]): void;
  addEventListener(type: 'message', listener: (event: MessageEvent<ToRunWorker>) => void): void;
}
const port = globalThis as unknown as Port;

let runner: LocalRunner | null = null;
let last = 0;
const models = new Map<number, TextModel | SequentialModel>();
const running = new Map<number, AbortController>();

function modelOf(id: number | undefined): TextModel & SequentialModel {
  const model = models.get(id ?? -1);
  if (model === undefined) throw new BallastError('invalid_argument', 'the model is closed');
  return model as TextModel & SequentialModel;
}

function keep(model: TextModel | SequentialModel): number {
  models.set(++last, model);
  return last;
}

async function carryOut({ id, method, model, args }: RunCall, signal: AbortSignal): Promise<unknown> {
  const onProgress = (done: number, total: number) => port.postMessage({ id, progress: [done, total] });
  switch (method) {
    case 'load':
      runner = await loadRunner(args[0] as LoadOptions);
      return null;
    case 'openTextModel': {
      const opened = await runner!.openTextModel(args[0] as Source[], { signal, onProgress });
      return { model: keep(opened), info: opened.info };
    }
    case 'openSequential': {
      const opened = await runner!.openSequential(args[0] as Source[], { signal, onProgress });
      return { model: keep(opened), layers: opened.layers, inputShape: opened.inputShape, classes: opened.classes };
    }
    case 'tokens': return modelOf(model).tokens(args[0] as string);
    case 'generate':
      return await modelOf(model).generate(args[0] as string, { ...(args[1] as GenerateOptions), signal, onToken: (token) => port.postMessage({ id, token }) });
    case 'inspect': {
      const found = (await modelOf(model).inspect(args[0] as string, { ...(args[1] as object), signal })) as Inspection & { maps: Float32Array[] };
      const { tokens, next, lens, maps } = found;
      return { tokens, next, lens, maps };
    }
    case 'run': return modelOf(model).run(args[0] as Float32Array);
    case 'close':
      modelOf(model).close();
      models.delete(model!);
      return null;
    default: throw new Error(`there is no method ${method}`);
  }
}

port.addEventListener('message', ({ data }) => {
  if ('cancel' in data) {
    running.get(data.cancel)?.abort();
    return;
  }
  const { id } = data;
  const controller = new AbortController();
  running.set(id, controller);
  carryOut(data, controller.signal).then(
    (result) => {
      const maps = (result as { maps?: Float32Array<ArrayBuffer>[] } | null)?.maps ?? [];
      port.postMessage({ id, result }, maps.map(({ buffer }) => buffer));
    },
    (thrown: unknown) => {
      const { code, message, remedies } = asBallastError(thrown, data.method);
      port.postMessage({ id, error: { code, message, remedies } });
    },
  ).finally(() => running.delete(id));
});
