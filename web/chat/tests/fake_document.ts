// As much of a document as the Markdown renderer uses. There is no parser of HTML behind it, and nothing that could turn
// text into elements.

import type { Maker } from '../src/markdown/render.ts';

export class FakeNode {
  readonly tag: string; // empty: text
  readonly text: string;
  readonly attributes = new Map<string, string>();
  readonly childNodes: FakeNode[] = [];

  constructor(tag: string, text: string) {
    this.tag = tag;
    this.text = text;
  }
  get lastChild(): FakeNode | null {
    return this.childNodes.at(-1) ?? null;
  }
  setAttribute(name: string, value: string): void {
    this.attributes.set(name, value);
  }
  appendChild(child: FakeNode): void {
    this.childNodes.push(child);
  }
  removeChild(child: FakeNode): void {
    this.childNodes.splice(this.childNodes.indexOf(child), 1);
  }
  get textContent(): string {
    return this.tag === '' ? this.text : this.childNodes.map((child) => child.textContent).join('');
  }
  all(): FakeNode[] {
    return [this, ...this.childNodes.flatMap((child) => child.all())];
  }
  find(tag: string): FakeNode[] {
    return this.all().filter((node) => node.tag === tag);
  }
  // Tags as in HTML, without attributes; text in brackets, so that text that looks like a tag is told from a tag.
  get outline(): string {
    if (this.tag === '') return `[${this.text}]`;
    return `<${this.tag}>${this.childNodes.map((child) => child.outline).join('')}</${this.tag}>`;
  }
}

export const kFakeDocument = {
  createElement: (tag: string) => new FakeNode(tag, ''),
  createTextNode: (text: string) => new FakeNode('', text),
} as unknown as Maker;
