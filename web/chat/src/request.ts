// The body of a chat request, and the same request for other programs: curl and Python.

import type { Attachment, Message } from './conversation.ts';
import { type Settings, kNumbers, parseSchema } from './settings.ts';

export interface ChatMessage {
  role: 'system' | 'user' | 'assistant';
  content: string;
}

export type ChatBody = { model: string; messages: ChatMessage[] } & Record<string, unknown>;

// A fence that is longer than any run of backticks inside, so that no file can end its own fence.
export function fencedFile(file: Attachment): string {
  const longest = Math.max(0, ...Array.from(file.text.matchAll(/`+/g), (run) => run[0].length));
  const fence = '`'.repeat(Math.max(3, longest + 1));
  const language = /\.([A-Za-z0-9]{1,10})$/.exec(file.name)?.[1] ?? 'text';
  const name = file.name.replace(/[`\n\r]/g, ' ');
  return `File "${name}":\n\n${fence}${language}\n${file.text}${file.text.endsWith('\n') ? '' : '\n'}${fence}`;
}

export function contentOf(message: Message): string {
  return [...message.attachments.map(fencedFile), message.content].filter((part) => part !== '').join('\n\n');
}

// Throws where the schema is not JSON: the panel says so before anything is sent.
export function chatBody(settings: Settings, path: readonly Message[]): ChatBody {
  const messages: ChatMessage[] = [];
  if (settings.system.trim() !== '') messages.push({ role: 'system', content: settings.system });
  for (const message of path) {
    const content = contentOf(message);
    const last = messages.at(-1);
    // Where an answer failed before its first token, two questions follow each other, which many chat templates refuse.
    if (last?.role === message.role) last.content = [last.content, content].filter((part) => part !== '').join('\n\n');
    else if (content !== '') messages.push({ role: message.role, content });
  }
  const body: ChatBody = { model: settings.model, messages };
  for (const { name } of kNumbers) {
    if (settings[name] !== null) body[name] = settings[name];
  }
  if (settings.useSchema) {
    const schema = parseSchema(settings.schema);
    if (!schema.ok) throw new Error(schema.message);
    body['response_format'] = { type: 'json_schema', json_schema: { name: 'answer', strict: true, schema: schema.value } };
  }
  return body;
}

export function streamed(body: ChatBody): ChatBody {
  return { ...body, stream: true, stream_options: { include_usage: true } };
}

// Half of a surrogate pair has no UTF-8, so no other program could be given it.
function wellFormed(text: string): string {
  return text.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, '\uFFFD');
}

function mapStrings(value: unknown): unknown {
  if (typeof value === 'string') return wellFormed(value);
  if (Array.isArray(value)) return value.map(mapStrings);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, field]) => [wellFormed(key), mapStrings(field)]));
}

// In single quotes a POSIX shell takes everything as it is, except for the quote itself.
export function shellQuote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

// The key itself is never copied: what is pasted somewhere must not carry a secret.
export function asCurl(baseUrl: string, body: ChatBody, needsKey: boolean): string {
  const lines = [`curl ${shellQuote(baseUrl + '/chat/completions')}`, `-H 'Content-Type: application/json'`];
  if (needsKey) lines.push('-H "Authorization: Bearer $OPENAI_API_KEY"');
  lines.push(`-d ${shellQuote(JSON.stringify(mapStrings(body), null, 2))}`);
  return lines.join(' \\\n  ') + '\n';
}

// JSON's strings and numbers are Python's too; its three words are not.
function pythonLiteral(value: unknown, indent: string): string {
  const inner = indent + '    ';
  if (value === null || value === undefined) return 'None';
  if (typeof value === 'boolean') return value ? 'True' : 'False';
  if (Array.isArray(value)) {
    if (value.length === 0) return '[]';
    return `[\n${value.map((item) => `${inner}${pythonLiteral(item, inner)},\n`).join('')}${indent}]`;
  }
  if (typeof value === 'object') {
    const fields = Object.entries(value);
    if (fields.length === 0) return '{}';
    const lines = fields.map(([key, field]) => `${inner}${JSON.stringify(key)}: ${pythonLiteral(field, inner)},\n`);
    return `{\n${lines.join('')}${indent}}`;
  }
  return JSON.stringify(value);
}

const kNotInOpenAi = new Set(['top_k', 'min_p']); // the client has no arguments for these

export function asPython(baseUrl: string, body: ChatBody, needsKey: boolean): string {
  const clean = mapStrings(body) as ChatBody;
  const extra = Object.fromEntries(Object.entries(clean).filter(([name]) => kNotInOpenAi.has(name)));
  const fields = Object.entries(clean).filter(([name]) => !kNotInOpenAi.has(name));
  if (Object.keys(extra).length > 0) fields.push(['extra_body', extra]);
  const key = needsKey ? 'os.environ["OPENAI_API_KEY"]' : '"none"';
  return [
    ...(needsKey ? ['import os', ''] : []),
    'from openai import OpenAI',
    '',
    `client = OpenAI(base_url=${JSON.stringify(baseUrl)}, api_key=${key})`,
    'answer = client.chat.completions.create(',
    ...fields.map(([name, value]) => `    ${name}=${pythonLiteral(value, '    ')},`),
    ')',
    'print(answer.choices[0].message.content)',
    '',
  ].join('\n');
}
