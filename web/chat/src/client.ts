// The server's interface: /v1/models, /props and /v1/chat/completions, and nothing else.

import type { ChatBody } from './request.ts';
import { SseParser } from './sse.ts';

export type Fetch = typeof fetch;

export type Failure = 'key' | 'busy' | 'unavailable' | 'refused' | 'server' | 'network' | 'cut';

export class ApiError extends Error {
  readonly failure: Failure;
  readonly retryAfterSeconds: number | null;
  constructor(failure: Failure, message: string, retryAfterSeconds: number | null = null) {
    super(message);
    this.failure = failure;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

export interface Usage {
  promptTokens: number | null;
  cachedTokens: number | null;
  answerTokens: number | null;
}

// One piece of a streamed answer; what a chunk does not carry is empty or null.
export interface Piece {
  content: string;
  reasoning: string;
  finish: string;
  usage: Usage | null;
}

export interface ServerFacts {
  model: string; // of which they are; empty: of all
  contextTokens: number | null;
}

type Fields = Record<string, unknown>;

function fieldsOf(value: unknown): Fields {
  return typeof value === 'object' && value !== null ? (value as Fields) : {};
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function countOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0 ? value : null;
}

function usageOf(value: unknown): Usage | null {
  if (typeof value !== 'object' || value === null) return null;
  const usage = fieldsOf(value);
  return {
    promptTokens: countOf(usage['prompt_tokens']),
    cachedTokens: countOf(fieldsOf(usage['prompt_tokens_details'])['cached_tokens']),
    answerTokens: countOf(usage['completion_tokens']),
  };
}

function errorText(value: unknown): string {
  const error = fieldsOf(value)['error'];
  return textOf(error) || textOf(fieldsOf(error)['message']) || textOf(fieldsOf(value)['detail']);
}

// The data of one event. A server that fails in the middle of an answer reports it as an event.
export function readPiece(data: string): Piece {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    throw new ApiError('server', `The server sent a chunk that is not JSON: ${data.slice(0, 200)}`);
  }
  const chunk = fieldsOf(value);
  if (chunk['error'] !== undefined && chunk['error'] !== null) {
    throw new ApiError('server', errorText(value) || 'The server ended the answer with an error it does not explain.');
  }
  const choices = chunk['choices'];
  const choice = fieldsOf(Array.isArray(choices) ? choices[0] : undefined);
  const delta = fieldsOf(choice['delta']);
  return {
    content: textOf(delta['content']),
    reasoning: textOf(delta['reasoning_content']) || textOf(delta['reasoning']),
    finish: textOf(choice['finish_reason']),
    usage: usageOf(chunk['usage']),
  };
}

export function retryAfterSeconds(header: string | null, now = Date.now()): number | null {
  if (header === null) return null;
  if (/^\d{1,6}$/.test(header.trim())) return Number(header);
  const date = Date.parse(header);
  return Number.isNaN(date) ? null : Math.max(0, Math.ceil((date - now) / 1000));
}

const kMaxErrorChars = 2000;

async function failureOf(response: Response): Promise<ApiError> {
  let text = '';
  try {
    text = await response.text();
    text = errorText(JSON.parse(text)) || text;
  } catch {
    // a plain text, or a body that was cut: what there is of it is shown
  }
  const said = text.trim().slice(0, kMaxErrorChars) || `The server answered with status ${response.status}.`;
  const wait = retryAfterSeconds(response.headers.get('Retry-After'));
  const again = wait === null ? '' : `${/[.!?]$/.test(said) ? '' : '.'} Try again in ${wait} s.`;
  if (response.status === 401) return new ApiError('key', said);
  if (response.status === 429) return new ApiError('busy', `The server is busy: ${said}${again}`, wait);
  if (response.status === 503) return new ApiError('unavailable', `The server is unavailable: ${said}${again}`, wait);
  return new ApiError(response.status >= 500 ? 'server' : 'refused', said, wait);
}

function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === 'AbortError';
}

export class Client {
  private readonly root: string; // ends with a slash
  private readonly key: () => string;
  private readonly fetch: Fetch;
  constructor(root: string, key: () => string, fetcher: Fetch = (input, init) => fetch(input, init)) {
    this.root = root;
    this.key = key;
    this.fetch = fetcher;
  }

  get baseUrl(): string {
    return `${this.root}v1`;
  }

  // Those that can chat. Of a model that was not loaded yet the server does not know; other servers never say.
  async models(): Promise<string[]> {
    const list = fieldsOf(await (await this.request('v1/models', {})).json())['data'];
    if (!Array.isArray(list)) throw new ApiError('server', 'The server answered /v1/models without a list of models.');
    const models = list.map(fieldsOf).filter((model) => textOf(model['id']) !== '');
    const able = models.filter(({ capabilities }) => !Array.isArray(capabilities) || capabilities.includes('chat'));
    if (models.length > 0 && able.length === 0) {
      throw new ApiError('server', 'None of the models on this server can chat. Serve one that can, such as smollm2.');
    }
    return able.map((model) => textOf(model['id']));
  }

  // Optional facts: a server that has no /props, or says other things there, is as good.
  async facts(): Promise<ServerFacts> {
    try {
      const props = fieldsOf(await (await this.request('props', {})).json());
      const defaults = fieldsOf(props['default_generation_settings']);
      return { model: textOf(props['model_alias']), contextTokens: countOf(props['n_ctx']) ?? countOf(defaults['n_ctx']) };
    } catch {
      return { model: '', contextTokens: null };
    }
  }

  // Gives the pieces of the answer to `take` as they arrive. Returns when the answer is complete; throws an ApiError
  // where it is not, and an AbortError where `signal` ended it.
  async chat(body: ChatBody, signal: AbortSignal, take: (piece: Piece) => void): Promise<void> {
    const response = await this.request('v1/chat/completions', {
      method: 'POST', body: JSON.stringify(body), signal, headers: { 'Content-Type': 'application/json' },
    });
    const type = response.headers.get('Content-Type') ?? 'no type';
    if (response.body === null || !type.startsWith('text/event-stream')) {
      throw new ApiError('server', `The server answered with ${type} where a stream was asked for.`);
    }
    const reader = response.body.getReader();
    try {
      if (!(await this.readAll(reader, take))) {
        throw new ApiError('cut', 'The connection ended before the answer was complete.');
      }
    } finally {
      void reader.cancel().catch(() => undefined);
    }
  }

  private async readAll(reader: ReadableStreamDefaultReader<Uint8Array>, take: (piece: Piece) => void): Promise<boolean> {
    const parser = new SseParser();
    let isFinished = false;
    for (;;) {
      const { done, value } = await reader.read().catch((error: unknown) => {
        if (isAbort(error)) throw error;
        throw new ApiError('cut', 'The connection to the server was lost before the answer was complete.');
      });
      if (done) return isFinished;
      for (const data of parser.push(value)) {
        if (data === '[DONE]') return true;
        const piece = readPiece(data);
        isFinished ||= piece.finish !== '';
        take(piece);
      }
    }
  }

  private async request(path: string, init: RequestInit): Promise<Response> {
    const headers = new Headers(init.headers);
    if (this.key() !== '') headers.set('Authorization', `Bearer ${this.key()}`);
    let response: Response;
    try {
      // A redirect would carry the key and the prompt to wherever it leads.
      response = await this.fetch(this.root + path, { ...init, headers, redirect: 'error', cache: 'no-store' });
    } catch (error) {
      if (isAbort(error)) throw error;
      throw new ApiError('network', 'The server cannot be reached. Is `ballast serve` still running?');
    }
    if (!response.ok) throw await failureOf(response);
    return response;
  }
}
