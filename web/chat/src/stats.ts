// What an answer cost, in words.

import type { Message, Stats } from './conversation.ts';

// Tokens per second after the first one: the first also waits for the prompt.
export function tokensPerSecond(stats: Stats): number | null {
  if (stats.answerTokens === null || stats.answerTokens < 2 || stats.answerMs === null || stats.answerMs <= 0) return null;
  return ((stats.answerTokens - 1) * 1000) / stats.answerMs;
}

function counted(count: number, noun: string): string {
  return `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`;
}

export function statsText(message: Message): string {
  const { stats, model } = message;
  if (stats === null) return '';
  const parts: string[] = model === '' ? [] : [model];
  if (stats.promptTokens !== null) {
    const cached = stats.cachedTokens === null || stats.cachedTokens === 0 ? '' : ` (${stats.cachedTokens.toLocaleString('en')} cached)`;
    parts.push(counted(stats.promptTokens, 'prompt token') + cached);
  }
  if (stats.answerTokens !== null) parts.push(counted(stats.answerTokens, 'answer token'));
  const speed = tokensPerSecond(stats);
  if (speed !== null) parts.push(`${speed.toFixed(1)} tokens/s`);
  if (stats.firstTokenMs !== null) parts.push(`first token after ${(stats.firstTokenMs / 1000).toFixed(2)} s`);
  return parts.join(' · ');
}

// How full the model's context is after the last answer that says so.
export function contextText(path: readonly Message[], contextTokens: number | null): string {
  const stats = path.findLast((message) => message.stats?.promptTokens != null)?.stats;
  if (stats?.promptTokens == null) return '';
  const used = (stats.promptTokens + (stats.answerTokens ?? 0)).toLocaleString('en');
  return contextTokens === null ? `${used} tokens used` : `${used} of ${contextTokens.toLocaleString('en')} context tokens used`;
}
