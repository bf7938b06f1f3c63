import type { BallastErrorFields, ErrorCode, Remedy } from './types.ts';

/** What every call rejects with. */
export class BallastError extends Error implements BallastErrorFields {
  readonly code: ErrorCode;
  readonly remedies: readonly Remedy[];

  constructor(code: ErrorCode, message: string, remedies: readonly Remedy[] = []) {
    super(message);
    this.name = 'BallastError';
    this.code = code;
    this.remedies = remedies;
  }
}

export function cancelled(): BallastError {
  return new BallastError('cancelled', 'interrupted');
}

export function checkSignal(signal: AbortSignal | undefined): void {
  if (signal?.aborted) throw cancelled();
}

/** Whatever was thrown, as one of ours. */
export function asBallastError(thrown: unknown, where: string): BallastError {
  if (thrown instanceof BallastError) return thrown;
  if (thrown instanceof Error && thrown.name === 'AbortError') return cancelled();
  return new BallastError('io', `${where}: ${thrown instanceof Error ? thrown.message : String(thrown)}`);
}
