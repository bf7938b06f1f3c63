// What the page keeps: conversations, each a tree of messages of which one path is shown.

import type { Settings } from './settings.ts';

export type Role = 'user' | 'assistant';
export type MessageState = 'complete' | 'streaming' | 'stopped' | 'failed';

export interface Attachment {
  name: string;
  text: string;
}

// Counts are the server's; times were measured here, in milliseconds.
export interface Stats {
  promptTokens: number | null;
  cachedTokens: number | null;
  answerTokens: number | null;
  firstTokenMs: number | null;
  answerMs: number | null; // from the first piece of the answer to the last
}

export interface Message {
  id: string;
  parent: string | null;
  chosen: string | null; // which of the messages that follow it is shown
  role: Role;
  content: string;
  reasoning: string;
  attachments: Attachment[];
  state: MessageState;
  error: string; // why it failed; empty otherwise
  finish: string; // the server's finish_reason
  isJson: boolean; // was asked for under a JSON schema
  model: string;
  createdAt: number;
  stats: Stats | null;
}

export interface Conversation {
  id: string;
  title: string;
  isRenamed: boolean; // by the user; other titles follow the first message
  createdAt: number;
  updatedAt: number;
  settings: Settings;
  first: string | null; // which of the first messages is shown
  messages: Message[]; // in the order of their creation, so a parent comes before its children
}

// crypto.randomUUID exists only on secure origins, and the page is also used over plain HTTP in a local network.
export function makeId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

export function makeConversation(settings: Settings, now = Date.now()): Conversation {
  return {
    id: makeId(), title: 'New conversation', isRenamed: false, createdAt: now, updatedAt: now,
    settings: { ...settings }, first: null, messages: [],
  };
}

export function makeMessage(role: Role, content: string, now = Date.now()): Message {
  return {
    id: makeId(), parent: null, chosen: null, role, content, reasoning: '', attachments: [], state: 'complete',
    error: '', finish: '', isJson: false, model: '', createdAt: now, stats: null,
  };
}

export function findMessage(conversation: Conversation, id: string | null): Message | undefined {
  return id === null ? undefined : conversation.messages.find((message) => message.id === id);
}

// The messages that are shown, from the first to the last.
export function shownPath(conversation: Conversation): Message[] {
  const byId = new Map(conversation.messages.map((message) => [message.id, message]));
  const path: Message[] = [];
  let next = conversation.first;
  while (next !== null && path.length < conversation.messages.length) {
    const message = byId.get(next);
    if (message === undefined) break;
    path.push(message);
    next = message.chosen;
  }
  return path;
}

// From the first message down to this one.
export function pathTo(conversation: Conversation, id: string | null): Message[] {
  const byId = new Map(conversation.messages.map((message) => [message.id, message]));
  const path: Message[] = [];
  let next = id;
  while (next !== null && path.length < conversation.messages.length) {
    const message = byId.get(next);
    if (message === undefined) break;
    path.push(message);
    next = message.parent;
  }
  return path.reverse();
}

export function siblingsOf(conversation: Conversation, message: Message): Message[] {
  return conversation.messages.filter((other) => other.parent === message.parent);
}

function choose(conversation: Conversation, parent: string | null, id: string | null): void {
  const above = findMessage(conversation, parent);
  if (above !== undefined) above.chosen = id;
  else conversation.first = id;
}

// Puts a message below another (or first) and shows it.
export function addMessage(conversation: Conversation, message: Message, parent: string | null): void {
  message.parent = parent;
  conversation.messages.push(message);
  choose(conversation, parent, message.id);
  conversation.updatedAt = message.createdAt;
  if (!conversation.isRenamed && message.role === 'user' && parent === null) conversation.title = titleOf(message);
}

// Shows the sibling that is `step` places further; what followed it when it was last shown is shown again.
export function showSibling(conversation: Conversation, message: Message, step: number): Message {
  const siblings = siblingsOf(conversation, message);
  const place = siblings.findIndex((other) => other.id === message.id) + step;
  const sibling = siblings[Math.max(0, Math.min(siblings.length - 1, place))] ?? message;
  choose(conversation, message.parent, sibling.id);
  return sibling;
}

// Takes a message away with everything that follows it, and shows its newest sibling instead.
export function removeMessage(conversation: Conversation, message: Message): void {
  const gone = new Set([message.id]);
  for (const other of conversation.messages) {
    if (other.parent !== null && gone.has(other.parent)) gone.add(other.id);
  }
  conversation.messages = conversation.messages.filter((other) => !gone.has(other.id));
  choose(conversation, message.parent, siblingsOf(conversation, message).at(-1)?.id ?? null);
}

const kTitleChars = 60;

export function titleOf(message: Message): string {
  const line = message.content.split('\n').map((part) => part.trim()).find((part) => part !== '')
    ?? message.attachments[0]?.name ?? 'New conversation';
  const chars = Array.from(line); // by characters: half an emoji is none
  return chars.length <= kTitleChars ? line : chars.slice(0, kTitleChars - 1).join('') + '…';
}

// A page that was closed while an answer came in leaves a part of it behind.
export function endInterrupted(conversation: Conversation): void {
  for (const message of conversation.messages) {
    if (message.state !== 'streaming') continue;
    message.state = 'failed';
    message.error = 'The page was closed before the answer was complete.';
  }
}
