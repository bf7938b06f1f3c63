// One answer as it comes in: text, times and counts go into its message.

import { ApiError, type Client, type Piece } from './client.ts';
import type { Message } from './conversation.ts';
import type { ChatBody } from './request.ts';

export class Generation {
  readonly message: Message;
  private readonly abort = new AbortController();
  private readonly changed: () => void;
  private readonly now: () => number;
  private firstAt: number | null = null;
  private lastAt: number | null = null;

  constructor(message: Message, changed: () => void, now: () => number = () => performance.now()) {
    this.message = message;
    this.changed = changed;
    this.now = now;
  }

  stop(): void {
    this.abort.abort();
  }

  // Never throws: how it ended is in the message. Returns what the server refused with, if it did.
  async run(client: Client, body: ChatBody): Promise<ApiError | null> {
    const startedAt = this.now();
    try {
      await client.chat(body, this.abort.signal, (piece) => this.take(piece, startedAt));
      this.message.state = 'complete';
      return null;
    } catch (error) {
      return this.fail(error);
    }
  }

  private take(piece: Piece, startedAt: number): void {
    const { message } = this;
    message.stats ??= { promptTokens: null, cachedTokens: null, answerTokens: null, firstTokenMs: null, answerMs: null };
    if (piece.content !== '' || piece.reasoning !== '') {
      message.content += piece.content;
      message.reasoning += piece.reasoning;
      this.lastAt = this.now();
      this.firstAt ??= this.lastAt;
      message.stats.firstTokenMs = this.firstAt - startedAt;
      message.stats.answerMs = this.lastAt - this.firstAt;
    }
    if (piece.finish !== '') message.finish = piece.finish;
    if (piece.usage !== null) Object.assign(message.stats, piece.usage);
    this.changed();
  }

  private fail(error: unknown): ApiError | null {
    if (this.abort.signal.aborted) {
      this.message.state = 'stopped';
      return null;
    }
    this.message.state = 'failed';
    this.message.error = error instanceof Error ? error.message : String(error);
    return error instanceof ApiError ? error : null;
  }
}
