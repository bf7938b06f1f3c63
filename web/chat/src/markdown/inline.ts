// Text inside a paragraph: emphasis, code, links. One pass; what is open stands on a stack of frames. The stack has a
// bounded height, and so has what comes of it, and the time is linear in the text whatever it holds. HTML has no meaning
// here and stays text.

import { type Inline, kMaxDepth } from './nodes.ts';
import { safeLink } from './safe_link.ts';

type Mark = '*' | '_' | '~' | '[' | '![' | '';

interface Frame {
  mark: Mark;
  count: number; // of the characters of an emphasis that are not used yet
  children: Inline[];
}

const kLongestRun = 3; // "***" is strong and emphasised; longer runs of stars are decoration

const kEscapable = /[!-/:-@[-`{-~]/;
const kBareUrl = /https?:\/\/[^\s<>"`]{1,2048}/iy;
const kAngleLink = /<((?:https?:\/\/|mailto:)[^\s<>]{1,2048})>/iy;
const kLinkTarget = /\(\s{0,4}(?:<([^<>\n]{0,2048})>|([^\s()<>]{0,2048}(?:\([^\s()]{0,256}\)[^\s()]{0,256}){0,4}))(?:\s{1,4}(?:"[^"]{0,512}"|'[^']{0,512}'))?\s{0,4}\)/y;
const kEntity = /&(amp|lt|gt|quot|apos|nbsp|#39);/y;
const kEntities: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'", nbsp: '\u00a0', '#39': "'" };
const kSpecial = /[\\`*_~[\]!<&\nhH]/g;

function matchAt(pattern: RegExp, text: string, position: number): RegExpExecArray | null {
  pattern.lastIndex = position;
  return pattern.exec(text);
}

function isSpace(char: string): boolean {
  return char === '' || /\s/.test(char);
}

function isWord(char: string): boolean {
  return /[\p{L}\p{N}]/u.test(char);
}

class InlineParser {
  private readonly text: string;
  private position = 0;
  private readonly frames: Frame[] = [{ mark: '', count: 0, children: [] }];
  private readonly open = new Map<Mark, number>(); // frames of each mark: a search that must fail is not begun
  private readonly noCloserFrom = new Map<number, number>(); // length of a run of backticks -> there is none from here on

  constructor(text: string) {
    this.text = text;
  }

  parse(): Inline[] {
    while (this.position < this.text.length) this.step();
    this.flattenAbove(0);
    return this.top().children;
  }

  private top(): Frame {
    return this.frames[this.frames.length - 1]!;
  }

  private add(node: Inline, frame = this.top()): void {
    const last = frame.children[frame.children.length - 1];
    if (node.kind === 'text' && last?.kind === 'text') last.text += node.text;
    else frame.children.push(node);
  }

  private addText(text: string, frame = this.top()): void {
    if (text !== '') this.add({ kind: 'text', text }, frame);
  }

  // What was opened and not closed turns out to be text.
  private addOpened(opened: Frame, frame: Frame): void {
    this.addText(opened.mark === '[' || opened.mark === '![' ? opened.mark : opened.mark.repeat(opened.count), frame);
    for (const child of opened.children) this.add(child, frame);
  }

  private step(): void {
    kSpecial.lastIndex = this.position;
    const next = kSpecial.exec(this.text)?.index ?? this.text.length;
    const plain = this.text.slice(this.position, next);
    this.position = next;
    if (this.text[next] === '\n') {
      this.takeNewline(plain);
      return;
    }
    this.addText(plain);
    if (next === this.text.length || this.takeSpecial(this.text[next]!)) return;
    this.addText(this.text[next]!);
    this.position += 1;
  }

  // Whether the character at the position began something; if not, it is text.
  private takeSpecial(char: string): boolean {
    switch (char) {
      case '\\': return this.takeEscape();
      case '`': return this.takeCode();
      case '*': case '_': case '~': return this.takeEmphasis(char);
      case '[': return this.openBracket('[');
      case '!': return this.text[this.position + 1] === '[' && this.openBracket('![');
      case ']': return this.takeLink();
      case '<': return this.takeAngleLink();
      case '&': return this.takeEntity();
      default: return this.takeBareUrl();
    }
  }

  private takeEscape(): boolean {
    const next = this.text[this.position + 1] ?? '';
    if (next === '\n') this.add({ kind: 'break' });
    else if (kEscapable.test(next)) this.addText(next);
    else return false;
    this.position += 2;
    return true;
  }

  private takeCode(): boolean {
    const start = this.position;
    let end = start;
    while (this.text[end] === '`') ++end;
    const length = end - start;
    const close = this.findBackticks(length, end);
    if (close < 0) {
      this.addText(this.text.slice(start, end));
      this.position = end;
      return true;
    }
    const code = this.text.slice(end, close).replaceAll('\n', ' ');
    const isPadded = code.length > 2 && code.startsWith(' ') && code.endsWith(' ') && code.trim() !== '';
    this.add({ kind: 'code', text: isPadded ? code.slice(1, -1) : code });
    this.position = close + length;
    return true;
  }

  private findBackticks(length: number, from: number): number {
    if (from >= (this.noCloserFrom.get(length) ?? Infinity)) return -1;
    let position = this.text.indexOf('`', from);
    while (position >= 0) {
      let end = position;
      while (this.text[end] === '`') ++end;
      if (end - position === length) return position;
      position = this.text.indexOf('`', end);
    }
    this.noCloserFrom.set(length, from);
    return -1;
  }

  private takeEmphasis(mark: '*' | '_' | '~'): boolean {
    const start = this.position;
    let end = start;
    while (this.text[end] === mark) ++end;
    const before = start === 0 ? '' : this.text[start - 1]!;
    const after = this.text[end] ?? '';
    this.position = end;
    let count = end - start;
    if (mark === '~' ? count !== 2 : count > kLongestRun) {
      this.addText(this.text.slice(start, end));
      return true;
    }
    const isInsideWord = mark === '_' && isWord(before) && isWord(after); // snake_case is no emphasis
    if (!isSpace(before) && !isInsideWord) count = this.closeEmphasis(mark, count);
    const mayOpen = !isSpace(after) && !isInsideWord && !(mark === '_' && isWord(before));
    if (count > 0 && mayOpen) this.push({ mark, count, children: [] });
    else this.addText(mark.repeat(count));
    return true;
  }

  // Uses up as much of a run of marks as there are openers for; returns what is left.
  private closeEmphasis(mark: '*' | '_' | '~', count: number): number {
    while (count > 0 && (this.open.get(mark) ?? 0) > 0) {
      let index = this.frames.length - 1;
      while (this.frames[index]!.mark !== mark) --index;
      this.flattenAbove(index);
      const frame = this.pop();
      if (frame.children.length === 0) { // "****" emphasises nothing
        this.addText(mark.repeat(frame.count));
        return count;
      }
      const used = mark === '~' ? 2 : Math.min(2, count, frame.count);
      count -= used;
      this.wrap(mark, used, frame);
    }
    return count;
  }

  private wrap(mark: '*' | '_' | '~', used: number, frame: Frame): void {
    const rest = frame.count - used;
    if (rest > 0) this.push({ mark, count: rest, children: [] });
    this.add({ kind: mark === '~' ? 'del' : used === 2 ? 'strong' : 'em', children: frame.children });
  }

  // Where too much is open, what was opened first is given up.
  private push(frame: Frame): void {
    if (this.frames.length > kMaxDepth) {
      const oldest = this.frames.splice(1, 1)[0]!;
      this.open.set(oldest.mark, (this.open.get(oldest.mark) ?? 0) - 1);
      this.addOpened(oldest, this.frames[0]!);
    }
    this.frames.push(frame);
    this.open.set(frame.mark, (this.open.get(frame.mark) ?? 0) + 1);
  }

  private pop(): Frame {
    const frame = this.frames.pop()!;
    this.open.set(frame.mark, (this.open.get(frame.mark) ?? 0) - 1);
    return frame;
  }

  private flattenAbove(index: number): void {
    for (const frame of this.frames.splice(index + 1)) {
      this.open.set(frame.mark, (this.open.get(frame.mark) ?? 0) - 1);
      this.addOpened(frame, this.frames[index]!);
    }
  }

  private openBracket(mark: '[' | '!['): boolean {
    this.push({ mark, count: 1, children: [] });
    this.position += mark.length;
    return true;
  }

  // Images become links too: a picture from elsewhere would tell its server who reads this.
  private takeLink(): boolean {
    const brackets = (this.open.get('[') ?? 0) + (this.open.get('![') ?? 0);
    if (brackets === 0) return false;
    let index = this.frames.length - 1;
    while (this.frames[index]!.mark !== '[' && this.frames[index]!.mark !== '![') --index;
    this.flattenAbove(index);
    const frame = this.pop();
    const target = this.text[this.position + 1] === '(' ? matchAt(kLinkTarget, this.text, this.position + 1) : null;
    const href = target === null ? null : safeLink(target[1] ?? target[2] ?? '');
    if (target === null || href === null) {
      this.addOpened(frame, this.top());
      return false;
    }
    const children: Inline[] = frame.children.length > 0 ? withoutLinks(frame.children) : [{ kind: 'text', text: href }];
    this.add({ kind: 'link', href, children });
    this.position += 1 + target[0].length;
    return true;
  }

  private takeAngleLink(): boolean {
    const match = matchAt(kAngleLink, this.text, this.position);
    const href = match === null ? null : safeLink(match[1]!);
    if (match === null || href === null) return false;
    this.add({ kind: 'link', href, children: [{ kind: 'text', text: match[1]! }] });
    this.position += match[0].length;
    return true;
  }

  private takeBareUrl(): boolean {
    if (this.position > 0 && isWord(this.text[this.position - 1]!)) return false;
    const match = matchAt(kBareUrl, this.text, this.position);
    if (match === null) return false;
    const address = withoutEnd(match[0]);
    const href = safeLink(address);
    if (href === null) return false;
    this.add({ kind: 'link', href, children: [{ kind: 'text', text: address }] });
    this.position += address.length;
    return true;
  }

  private takeEntity(): boolean {
    const match = matchAt(kEntity, this.text, this.position);
    if (match === null) return false;
    this.addText(kEntities[match[1]!]!);
    this.position += match[0].length;
    return true;
  }

  // Two spaces at the end of a line keep its end.
  private takeNewline(before: string): void {
    this.addText(before.trimEnd());
    if (before.endsWith('  ')) this.add({ kind: 'break' });
    else this.addText('\n');
    this.position += 1;
  }
}

// A link inside a link is shown as its text.
function withoutLinks(nodes: Inline[]): Inline[] {
  return nodes.flatMap((node): Inline[] => {
    if (node.kind === 'link') return withoutLinks(node.children);
    return 'children' in node ? [{ ...node, children: withoutLinks(node.children) }] : [node];
  });
}

// Punctuation after an address belongs to the sentence, and so does a parenthesis that was opened before it.
function withoutEnd(address: string): string {
  let end = address.length;
  let open = 0;
  for (const char of address) open += char === '(' ? 1 : char === ')' ? -1 : 0;
  while (end > 0) {
    const last = address[end - 1]!;
    if (last === ')' && open < 0) ++open;
    else if (!/[.,:;!?*_~'\]]/.test(last)) break;
    --end;
  }
  return address.slice(0, end);
}

export function parseInline(text: string): Inline[] {
  return new InlineParser(text).parse();
}
