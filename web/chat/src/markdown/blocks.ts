// Markdown's blocks: paragraphs, headings, fenced code, lists, quotes, tables. What a stream has not closed yet is
// closed by the end of the text, so a half answer looks like the whole will.

import { type Align, type Block, type ListItem, kMaxDepth } from './nodes.ts';
import { parseInline } from './inline.ts';

const kFence = /^ {0,3}(`{3,}|~{3,})[ \t]*([^`]*)$/;
const kHeading = /^ {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$/;
const kRule = /^ {0,3}(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,})$/;
const kQuote = /^ {0,3}> ?/;
const kItem = /^( {0,3})([-*+]|\d{1,9}[.)])([ \t]+|$)/;
const kTask = /^\[([ xX])\][ \t]+/;
const kDelimiterCell = /^[ \t]*:?-+:?[ \t]*$/;
const kMaxHeadingScan = 1000; // a longer line is no heading

// A block and the lines it was made from: equal lines make an equal block, which need not be drawn again.
export interface PlacedBlock {
  block: Block;
  source: string;
}

function isBlank(line: string): boolean {
  return line.trim() === '';
}

function indentOf(line: string): number {
  return line.length - line.trimStart().length;
}

function isRule(line: string): boolean {
  return line.length < kMaxHeadingScan && kRule.test(line);
}

function headingOf(line: string): RegExpExecArray | null {
  return line.length < kMaxHeadingScan ? kHeading.exec(line) : null;
}

// Whether a line ends the paragraph before it.
function interruptsParagraph(line: string): boolean {
  const item = kItem.exec(line);
  const isItem = item !== null && item[3] !== '' && (!/\d/.test(item[2]!) || /^1[.)]$/.test(item[2]!));
  return isItem || kFence.test(line) || kQuote.test(line) || headingOf(line) !== null || isRule(line);
}

// Cells between the bars of a row. A bar in code or after a backslash is text.
function cellsOf(line: string): string[] {
  const cells: string[] = [];
  let cell = '';
  let isCode = false;
  for (let i = 0; i < line.length; ++i) {
    const char = line[i]!;
    if (char === '\\' && line[i + 1] === '|') {
      cell += '|';
      ++i;
    } else if (char === '|' && !isCode) {
      cells.push(cell.trim());
      cell = '';
    } else {
      if (char === '`') isCode = !isCode;
      cell += char;
    }
  }
  cells.push(cell.trim());
  if (cells[0] === '') cells.shift();
  if (cells.at(-1) === '') cells.pop();
  return cells;
}

const kMaxColumns = 64;

function alignsOf(line: string): Align[] | null {
  if (!line.includes('-') || !line.includes('|')) return null;
  const cells = cellsOf(line);
  if (cells.length === 0 || cells.length > kMaxColumns || !cells.every((cell) => kDelimiterCell.test(cell))) return null;
  return cells.map((cell) => {
    const left = cell.startsWith(':');
    const right = cell.endsWith(':');
    return left && right ? 'center' : right ? 'right' : left ? 'left' : null;
  });
}

class BlockParser {
  private readonly lines: string[];
  private readonly depth: number;
  private at = 0;

  constructor(lines: string[], depth: number) {
    this.lines = lines;
    this.depth = depth;
  }

  parse(): PlacedBlock[] {
    const blocks: PlacedBlock[] = [];
    while (this.at < this.lines.length) {
      if (isBlank(this.lines[this.at]!)) {
        ++this.at;
        continue;
      }
      const start = this.at;
      const block = this.next();
      blocks.push({ block, source: this.lines.slice(start, this.at).join('\n') });
    }
    return blocks;
  }

  private next(): Block {
    const line = this.lines[this.at]!;
    const fence = kFence.exec(line);
    if (fence !== null) return this.takeFence(fence, indentOf(line));
    const heading = headingOf(line);
    if (heading !== null) {
      ++this.at;
      return { kind: 'heading', level: heading[1]!.length, inlines: parseInline(heading[2] ?? '') };
    }
    if (isRule(line)) {
      ++this.at;
      return { kind: 'rule' };
    }
    if (this.depth < kMaxDepth && kQuote.test(line)) return this.takeQuote();
    if (this.depth < kMaxDepth && kItem.test(line)) return this.takeList();
    return this.takeTable() ?? this.takeParagraph();
  }

  private takeFence(fence: RegExpExecArray, indent: number): Block {
    const mark = fence[1]!;
    const text: string[] = [];
    for (++this.at; this.at < this.lines.length; ++this.at) {
      const line = this.lines[this.at]!;
      const end = kFence.exec(line);
      if (end !== null && end[2] === '' && end[1]!.startsWith(mark)) {
        ++this.at;
        break;
      }
      text.push(line.slice(Math.min(indent, indentOf(line))));
    }
    return { kind: 'code', language: fence[2]!.trim().split(/\s/)[0]!.slice(0, 32), text: text.join('\n') };
  }

  private takeQuote(): Block {
    const inner: string[] = [];
    for (; this.at < this.lines.length && kQuote.test(this.lines[this.at]!); ++this.at) {
      inner.push(this.lines[this.at]!.replace(kQuote, ''));
    }
    return { kind: 'quote', blocks: parseLines(inner, this.depth + 1).map((placed) => placed.block) };
  }

  private takeList(): Block {
    const first = kItem.exec(this.lines[this.at]!)!;
    const kind = first[2]!.at(-1)!; // the bullet, or what ends the number: another one begins another list
    const items: ListItem[] = [];
    while (this.at < this.lines.length) {
      const line = this.lines[this.at]!;
      const mark = isRule(line) ? null : kItem.exec(line);
      if (mark === null || mark[2]!.at(-1) !== kind) break;
      items.push(this.takeItem(mark));
    }
    return { kind: 'list', start: /\d/.test(first[2]!) ? Number.parseInt(first[2]!, 10) : null, items };
  }

  private takeItem(mark: RegExpExecArray): ListItem {
    const padding = mark[3]!.length > 4 || mark[3] === '' ? 1 : mark[3]!.length;
    const width = mark[1]!.length + mark[2]!.length + padding;
    const inner = [this.lines[this.at]!.slice(width)];
    let wasBlank = false;
    for (++this.at; this.at < this.lines.length; ++this.at) {
      const line = this.lines[this.at]!;
      // Models often indent the lines of a numbered item by two or three columns: that is taken as belonging to it.
      const isInside = indentOf(line) >= Math.min(width, 2) && !(kItem.test(line) && indentOf(line) < width);
      const isLazy = !wasBlank && !kItem.test(line) && !interruptsParagraph(line);
      if (!isBlank(line) && !isInside && !isLazy) break;
      wasBlank = isBlank(line);
      if (!wasBlank) inner.push(line.slice(Math.min(width, indentOf(line))));
      else if (!this.takeBlanks(width, inner)) break;
    }
    while (this.at < this.lines.length && isBlank(this.lines[this.at]!)) ++this.at;
    const task = kTask.exec(inner[0]!);
    if (task !== null) inner[0] = inner[0]!.slice(task[0].length);
    return {
      isDone: task === null ? null : task[1] !== ' ',
      blocks: parseLines(inner, this.depth + 1).map((placed) => placed.block),
    };
  }

  // After blank lines, an item goes on with a line that is indented: then they belong to it.
  private takeBlanks(width: number, inner: string[]): boolean {
    let next = this.at;
    while (next < this.lines.length && isBlank(this.lines[next]!)) ++next;
    const line = this.lines[next];
    if (line === undefined || indentOf(line) < Math.min(width, 2) || (kItem.test(line) && indentOf(line) < width)) return false;
    for (; this.at < next; ++this.at) inner.push('');
    --this.at; // the loop steps on
    return true;
  }

  private takeTable(): Block | null {
    const line = this.lines[this.at]!;
    const align = line.includes('|') ? alignsOf(this.lines[this.at + 1] ?? '') : null;
    const head = align === null ? [] : cellsOf(line);
    if (align === null || head.length !== align.length) return null;
    const rows: string[][] = [];
    for (this.at += 2; this.at < this.lines.length; ++this.at) {
      const row = this.lines[this.at]!;
      if (isBlank(row) || !row.includes('|')) break;
      const cells = cellsOf(row).slice(0, align.length);
      while (cells.length < align.length) cells.push('');
      rows.push(cells);
    }
    return { kind: 'table', align, head: head.map(parseInline), rows: rows.map((row) => row.map(parseInline)) };
  }

  private takeParagraph(): Block {
    const text = [this.lines[this.at]!.trimStart()];
    for (++this.at; this.at < this.lines.length; ++this.at) {
      const line = this.lines[this.at]!;
      if (isBlank(line) || interruptsParagraph(line)) break;
      text.push(line.trimStart());
    }
    return { kind: 'paragraph', inlines: parseInline(text.join('\n').trimEnd()) };
  }
}

function parseLines(lines: string[], depth: number): PlacedBlock[] {
  return new BlockParser(lines, depth).parse();
}

export function parseMarkdown(text: string): PlacedBlock[] {
  return parseLines(text.replaceAll('\t', '    ').split(/\r\n|\r|\n/), 0);
}
