// Elements from parsed Markdown. Text becomes text nodes and nothing else: there is no way from an answer to markup.

import { parseMarkdown } from './blocks.ts';
import { highlight } from './highlight.ts';
import type { Block, Inline, ListItem } from './nodes.ts';

export type Maker = Pick<Document, 'createElement' | 'createTextNode'>;

type Tag = keyof HTMLElementTagNameMap;

function make(doc: Maker, tag: Tag, children: Node[], attributes: Record<string, string> = {}): HTMLElement {
  const element = doc.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  for (const child of children) element.appendChild(child);
  return element;
}

function renderInline(doc: Maker, node: Inline): Node {
  switch (node.kind) {
    case 'text': return doc.createTextNode(node.text);
    case 'code': return make(doc, 'code', [doc.createTextNode(node.text)]);
    case 'break': return make(doc, 'br', []);
    case 'link': return make(doc, 'a', renderInlines(doc, node.children), {
      href: node.href, rel: 'noopener noreferrer', target: '_blank',
    });
    default: return make(doc, node.kind, renderInlines(doc, node.children));
  }
}

function renderInlines(doc: Maker, nodes: Inline[]): Node[] {
  return nodes.map((node) => renderInline(doc, node));
}

export function renderCode(doc: Maker, text: string, language: string): HTMLElement {
  const spans = highlight(text, language).map((token) => {
    const plain = doc.createTextNode(token.text);
    return token.kind === 'plain' ? plain : make(doc, 'span', [plain], { class: `token-${token.kind}` });
  });
  const label = make(doc, 'span', [doc.createTextNode(language || 'text')], { class: 'code-language' });
  const copy = make(doc, 'button', [doc.createTextNode('Copy')], { type: 'button', class: 'copy-code', 'aria-label': 'Copy code' });
  const bar = make(doc, 'div', [label, copy], { class: 'code-bar' });
  const code = make(doc, 'pre', [make(doc, 'code', spans)], { tabindex: '0', role: 'group', 'aria-label': `${language || 'text'} code` });
  return make(doc, 'div', [bar, code], { class: 'code-block' });
}

function renderItem(doc: Maker, item: ListItem): HTMLElement {
  // A single paragraph stands in the item itself, so that short lists stay tight.
  const only = item.blocks[0];
  const isTight = only?.kind === 'paragraph' && item.blocks.slice(1).every((block) => block.kind === 'list');
  const content: Node[] = isTight
    ? [...renderInlines(doc, only.inlines), ...renderBlocks(doc, item.blocks.slice(1))]
    : renderBlocks(doc, item.blocks);
  if (item.isDone === null) return make(doc, 'li', content);
  const box = make(doc, 'input', [], {
    type: 'checkbox', disabled: '', 'aria-label': item.isDone ? 'done' : 'not done', ...(item.isDone ? { checked: '' } : {}),
  });
  return make(doc, 'li', [box, doc.createTextNode(' '), ...content], { class: 'task' });
}

function renderTable(doc: Maker, table: Block & { kind: 'table' }): HTMLElement {
  const row = (cells: Inline[][], tag: 'th' | 'td'): HTMLElement => make(doc, 'tr', cells.map((cell, column) => {
    const align = table.align[column];
    return make(doc, tag, renderInlines(doc, cell), align ? { class: `align-${align}` } : {});
  }));
  const head = make(doc, 'thead', [row(table.head, 'th')]);
  const body = make(doc, 'tbody', table.rows.map((cells) => row(cells, 'td')));
  const inner = make(doc, 'table', [head, body]);
  return make(doc, 'div', [inner], { class: 'table-scroll', tabindex: '0', role: 'group', 'aria-label': 'table' });
}

export function renderBlock(doc: Maker, block: Block): HTMLElement {
  switch (block.kind) {
    case 'paragraph': return make(doc, 'p', renderInlines(doc, block.inlines));
    // The page has headings of its own above; an answer's begin at the third level.
    case 'heading': return make(doc, `h${Math.min(6, block.level + 2)}` as Tag, renderInlines(doc, block.inlines), {
      class: `heading-${block.level}`,
    });
    case 'code': return renderCode(doc, block.text, block.language);
    case 'quote': return make(doc, 'blockquote', renderBlocks(doc, block.blocks));
    case 'list': return make(doc, block.start === null ? 'ul' : 'ol', block.items.map((item) => renderItem(doc, item)),
      block.start === null || block.start === 1 ? {} : { start: String(block.start) });
    case 'table': return renderTable(doc, block);
    case 'rule': return make(doc, 'hr', []);
  }
}

function renderBlocks(doc: Maker, blocks: Block[]): HTMLElement[] {
  return blocks.map((block) => renderBlock(doc, block));
}

// Shows a text that grows. Blocks whose lines have not changed keep their elements: a selection in them stays, and the
// work for a new piece is that of the last block.
export class MarkdownView {
  readonly element: HTMLElement;
  private readonly doc: Maker;
  private sources: string[] = [];

  constructor(doc: Maker, element: HTMLElement) {
    this.doc = doc;
    this.element = element;
  }

  show(text: string): void {
    const placed = parseMarkdown(text);
    let same = 0;
    while (same < placed.length && same < this.sources.length && placed[same]!.source === this.sources[same]) ++same;
    while (this.element.childNodes.length > same) this.element.removeChild(this.element.lastChild!);
    for (const { block } of placed.slice(same)) this.element.appendChild(renderBlock(this.doc, block));
    this.sources = placed.map(({ source }) => source);
  }
}
