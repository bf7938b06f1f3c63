// Metadata as a tree: the dots of GGUF's keys and the structure of JSON texts become branches.

import type { Archive, MetaElement, MetaEntry, MetaValue } from './engine.ts';

export interface Leaf {
  path: string;
  type: string;
  value: string;
}

export interface Node {
  label: string;
  leaf: Leaf | null; // null: a branch
  children: Node[];
}

// Longer texts are cut in the tree; what was cut is said.
const kLongest = 2000;

export function metadataTree(archive: Pick<Archive, 'metadata' | 'config'>): Node[] {
  const root: Node = { label: '', leaf: null, children: [] };
  for (const entry of archive.metadata) addEntry(root, entry);
  if (archive.config !== null) root.children.push(textNode(archive.config.schema === '' ? 'config' : `config (${archive.config.schema})`, 'config', archive.config.text));
  return root.children;
}

function addEntry(root: Node, { key, value }: MetaEntry): void {
  const parts = key.split('.');
  let at = root;
  for (const part of parts.slice(0, -1)) {
    let next = at.children.find((child) => child.label === part && child.leaf === null);
    if (next === undefined) at.children.push(next = { label: part, leaf: null, children: [] });
    at = next;
  }
  at.children.push(valueNode(parts.at(-1)!, key, value));
}

function valueNode(label: string, path: string, value: MetaValue): Node {
  if (value.type === 'string') return textNode(label, path, value.value);
  if (value.type !== 'array') return { label, leaf: { path, type: value.type, value: String(value.value) }, children: [] };
  const children = value.values.map((element, at) => elementNode(String(at), `${path}[${at}]`, element));
  if (value.leftOut > 0) children.push({ label: '…', leaf: { path, type: '', value: `${value.leftOut} more` }, children: [] });
  return { label: `${label} (${value.count} × ${value.element})`, leaf: null, children };
}

function elementNode(label: string, path: string, element: MetaElement): Node {
  if (typeof element === 'object') return { label, leaf: null, children: element.map((one, at) => elementNode(String(at), `${path}[${at}]`, one)) };
  return { label, leaf: { path, type: typeof element, value: cut(String(element)) }, children: [] };
}

// A text that is a JSON object or list is shown as what it says.
function textNode(label: string, path: string, text: string): Node {
  if (/^\s*[{[]/.test(text)) {
    try {
      return jsonNode(label, path, JSON.parse(text) as unknown);
    } catch {
      // No JSON after all.
    }
  }
  return { label, leaf: { path, type: 'string', value: cut(text) }, children: [] };
}

function jsonNode(label: string, path: string, value: unknown): Node {
  if (value === null || typeof value !== 'object') return { label, leaf: { path, type: value === null ? 'null' : typeof value, value: cut(String(value)) }, children: [] };
  const entries = Array.isArray(value) ? value.map((one, at) => [String(at), one] as const) : Object.entries(value);
  return { label, leaf: null, children: entries.map(([name, one]) => jsonNode(name, Array.isArray(value) ? `${path}[${name}]` : `${path}.${name}`, one)) };
}

function cut(text: string): string {
  return text.length > kLongest ? `${text.slice(0, kLongest)}… (${text.length} characters)` : text;
}

// Leaves whose path or value contains the words.
export function searchLeaves(nodes: readonly Node[], words: string): Leaf[] {
  const wanted = words.toLowerCase();
  const found: Leaf[] = [];
  const stack = [...nodes].reverse();
  while (stack.length > 0) {
    const { leaf, children } = stack.pop()!;
    if (leaf !== null && (leaf.path.toLowerCase().includes(wanted) || leaf.value.toLowerCase().includes(wanted))) found.push(leaf);
    for (let at = children.length - 1; at >= 0; --at) stack.push(children[at]!);
  }
  return found;
}

export function countLeaves(node: Node): number {
  return node.leaf !== null ? 1 : node.children.reduce((sum, child) => sum + countLeaves(child), 0);
}
