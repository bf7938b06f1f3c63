// Conversations as a file, and back. What comes back is checked field by field and built anew: a file from elsewhere can
// bring texts, and nothing else.

import { type Attachment, type Conversation, type Message, type Stats, endInterrupted, makeId } from './conversation.ts';
import { readSettings } from './settings.ts';

const kFormat = 'ballast-chat';
const kVersion = 1;

export const kMaxImportBytes = 64 * 1024 * 1024;
const kMaxConversations = 10_000;
const kMaxMessages = 20_000; // of one conversation
const kMaxAttachments = 64; // of one message
const kMaxIdChars = 64;
const kMaxTitleChars = 500;

export class ImportError extends Error {}

export function exportText(conversations: readonly Conversation[], now = new Date()): string {
  return JSON.stringify({ format: kFormat, version: kVersion, exported: now.toISOString(), conversations }, null, 1);
}

type Fields = Record<string, unknown>;

function objectAt(value: unknown, where: string): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields;
  throw new ImportError(`${where} is not an object.`);
}

function listAt(value: unknown, where: string, most: number): unknown[] {
  if (!Array.isArray(value)) throw new ImportError(`${where} is not a list.`);
  if (value.length > most) throw new ImportError(`${where} has ${value.length} entries; the limit is ${most}.`);
  return value;
}

function textAt(fields: Fields, name: string, where: string, most = kMaxImportBytes): string {
  const value = fields[name];
  if (typeof value !== 'string') throw new ImportError(`${where}.${name} is not a string.`);
  if (value.length > most) throw new ImportError(`${where}.${name} has ${value.length} characters; the limit is ${most}.`);
  return value;
}

function optionalText(fields: Fields, name: string, where: string): string {
  return fields[name] === undefined ? '' : textAt(fields, name, where);
}

function idAt(fields: Fields, name: string, where: string): string {
  const id = textAt(fields, name, where, kMaxIdChars);
  if (!/^[A-Za-z0-9_-]+$/.test(id)) throw new ImportError(`${where}.${name} is not an id: only letters, digits, - and _ are allowed.`);
  return id;
}

function optionalId(fields: Fields, name: string, where: string): string | null {
  return fields[name] === null || fields[name] === undefined ? null : idAt(fields, name, where);
}

function timeAt(fields: Fields, name: string, where: string): number {
  const value = fields[name];
  if (typeof value !== 'number' || !Number.isFinite(value) || value < 0 || value > 8.64e15) {
    throw new ImportError(`${where}.${name} is not a time in milliseconds.`);
  }
  return value;
}

function oneOf<T extends string>(fields: Fields, name: string, where: string, allowed: readonly T[]): T {
  const value = fields[name];
  const found = allowed.find((word) => word === value);
  if (found === undefined) throw new ImportError(`${where}.${name} must be one of: ${allowed.join(', ')}.`);
  return found;
}

function readStats(value: unknown): Stats | null {
  if (typeof value !== 'object' || value === null) return null;
  const fields = value as Fields;
  const number = (name: string): number | null => {
    const field = fields[name];
    return typeof field === 'number' && Number.isFinite(field) && field >= 0 ? field : null;
  };
  return {
    promptTokens: number('promptTokens'), cachedTokens: number('cachedTokens'), answerTokens: number('answerTokens'),
    firstTokenMs: number('firstTokenMs'), answerMs: number('answerMs'),
  };
}

function readAttachments(value: unknown, where: string): Attachment[] {
  return listAt(value ?? [], where, kMaxAttachments).map((entry, index) => {
    const place = `${where}[${index}]`;
    const fields = objectAt(entry, place);
    return { name: textAt(fields, 'name', place, kMaxTitleChars), text: textAt(fields, 'text', place) };
  });
}

function readMessage(value: unknown, where: string): Message {
  const fields = objectAt(value, where);
  return {
    id: idAt(fields, 'id', where),
    parent: optionalId(fields, 'parent', where),
    chosen: optionalId(fields, 'chosen', where),
    role: oneOf(fields, 'role', where, ['user', 'assistant']),
    content: textAt(fields, 'content', where),
    reasoning: optionalText(fields, 'reasoning', where),
    attachments: readAttachments(fields['attachments'], `${where}.attachments`),
    state: oneOf(fields, 'state', where, ['complete', 'streaming', 'stopped', 'failed']),
    error: optionalText(fields, 'error', where),
    finish: optionalText(fields, 'finish', where),
    isJson: fields['isJson'] === true,
    model: optionalText(fields, 'model', where),
    createdAt: timeAt(fields, 'createdAt', where),
    stats: readStats(fields['stats']),
  };
}

// A parent comes before its children, so there is no circle; what is shown below a message is one of its children.
function checkTree(messages: readonly Message[], first: string | null, where: string): void {
  const byId = new Map<string, Message>();
  messages.forEach((message, index) => {
    const place = `${where}.messages[${index}]`;
    if (byId.has(message.id)) throw new ImportError(`${place}.id is already used by an earlier message.`);
    if (message.parent !== null && !byId.has(message.parent)) throw new ImportError(`${place}.parent is not an earlier message.`);
    byId.set(message.id, message);
  });
  messages.forEach((message, index) => {
    if (message.chosen !== null && byId.get(message.chosen)?.parent !== message.id) {
      throw new ImportError(`${where}.messages[${index}].chosen does not follow this message.`);
    }
  });
  if (first !== null && byId.get(first)?.parent !== null) throw new ImportError(`${where}.first is not a first message.`);
}

export function readConversation(value: unknown, where: string): Conversation {
  const fields = objectAt(value, where);
  const messages = listAt(fields['messages'], `${where}.messages`, kMaxMessages)
    .map((entry, index) => readMessage(entry, `${where}.messages[${index}]`));
  const first = optionalId(fields, 'first', where);
  checkTree(messages, first, where);
  return {
    id: idAt(fields, 'id', where),
    title: textAt(fields, 'title', where, kMaxTitleChars),
    isRenamed: fields['isRenamed'] === true,
    createdAt: timeAt(fields, 'createdAt', where),
    updatedAt: timeAt(fields, 'updatedAt', where),
    settings: readSettings(fields['settings']),
    first,
    messages,
  };
}

export function readExport(text: string): Conversation[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new ImportError(`The file is not valid JSON: ${error instanceof Error ? error.message : error}`);
  }
  const file = objectAt(value, 'The file');
  if (file['format'] !== kFormat) throw new ImportError(`The file is not an export of this page: its "format" is not "${kFormat}".`);
  if (file['version'] !== kVersion) throw new ImportError(`The file has version ${String(file['version'])}; this page reads version ${kVersion}.`);
  const list = listAt(file['conversations'], 'conversations', kMaxConversations);
  const conversations = list.map((entry, index) => readConversation(entry, `conversations[${index}]`));
  conversations.forEach(endInterrupted);
  return conversations;
}

// Which of the imported conversations are new. One that is here already is left out; one that went another way since
// gets an id of its own, so that neither is lost.
export function mergeImported(here: ReadonlyMap<string, Conversation>, imported: readonly Conversation[]): Conversation[] {
  const taken = new Set(here.keys());
  const added: Conversation[] = [];
  for (const conversation of imported) {
    const mine = here.get(conversation.id);
    if (mine !== undefined && JSON.stringify(mine) === JSON.stringify(conversation)) continue;
    if (taken.has(conversation.id)) conversation.id = makeId();
    taken.add(conversation.id);
    added.push(conversation);
  }
  return added;
}
