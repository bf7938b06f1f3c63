// The table of tensors. Only the rows in sight exist, so that a million scroll as smoothly as ten.

import type { Archive } from '../engine.ts';
import { arrange, compilePattern, totalsOf, type Column, type Order, type Row } from '../rows.ts';
import { bytesText, countText, plural, shapeText, shortCount } from '../text.ts';
import { announce, box, button, field, make } from './element.ts';

const kRowHeight = 34;
// Browsers limit how tall an element may be; beyond this, scrolling goes through the rows faster.
const kMostTall = 8_000_000;
const kSpare = 6;

const kColumns: readonly { column: Column; label: string; text: (row: Row) => string; isNumber?: boolean }[] = [
  { column: 'name', label: 'Name', text: (row) => row.name },
  { column: 'dtype', label: 'Type', text: (row) => row.dtype },
  { column: 'shape', label: 'Shape', text: (row) => shapeText(row.shape) },
  { column: 'elements', label: 'Elements', text: (row) => countText(row.elements), isNumber: true },
  { column: 'bytes', label: 'Size', text: (row) => bytesText(row.bytes), isNumber: true },
];

// An element that shows now one row and now another, and what it shows.
interface PooledRow {
  readonly element: HTMLElement;
  readonly texts: readonly Text[];
  readonly name: HTMLElement;
  at: number; // in the archive
  place: number; // in the table; -1 while it is out of use
  top: number;
  isSelected: boolean | null;
  isActive: boolean;
}

export class TensorTable {
  readonly element: HTMLElement;
  private readonly rows: readonly Row[];
  private readonly open: (at: number) => void;
  private readonly view = make('div', { attributes: { class: 'grid-view', role: 'rowgroup', tabindex: '0', 'aria-label': 'Tensors: arrow keys move, Space selects, Enter opens' } });
  private readonly content = make('div', { attributes: { class: 'grid-tall', role: 'presentation' } });
  private readonly header = make('div', { attributes: { role: 'row', class: 'grid-row grid-head', 'aria-rowindex': '1' } });
  private readonly grid = make('div', { attributes: { role: 'grid', class: 'grid', 'aria-label': 'Tensors', 'aria-multiselectable': 'true' } }, this.header, this.view);
  private readonly totals = make('p', { attributes: { class: 'totals', role: 'status', id: 'tensor-totals' } });
  private readonly problem = make('p', { attributes: { class: 'field-error', role: 'status' } });
  private readonly filter = make('input', { attributes: { type: 'search', spellcheck: 'false', placeholder: 'attn|mlp' } });
  private readonly selected = new Set<number>();
  private readonly pool: PooledRow[] = [];
  private order: Order = { column: 'order', descending: false };
  private shown: number[] = [];
  private active = 0;
  private anchor = 0;
  private isPlanned = false;
  private seen = 0; // pixels of the view
  private whole = 0; // pixels of all rows
  private tall = 0; // pixels that are scrolled through

  constructor(archive: Archive, open: (at: number) => void) {
    this.rows = archive.tensors;
    this.open = open;
    this.view.append(this.content);
    this.element = box('tensor-table', box('toolbar', field('Filter by name (regular expression)', this.filter, this.problem),
      box('buttons', button('Select all shown', () => this.selectShown()), button('Clear selection', () => this.clear()))), this.totals, this.grid);
    this.filter.addEventListener('input', () => this.arrange());
    this.view.addEventListener('scroll', () => this.plan(), { passive: true });
    this.view.addEventListener('keydown', (event) => this.onKey(event));
    this.view.addEventListener('focus', () => this.plan());
    new ResizeObserver(() => this.measure()).observe(this.view);
    this.drawHeader();
    this.arrange();
  }

  private drawHeader(): void {
    this.header.replaceChildren(make('span', { attributes: { role: 'columnheader', class: 'grid-check' } }, make('span', { attributes: { class: 'unseen' } }, 'Selected')),
      ...kColumns.map(({ column, label, isNumber }) => {
        const isSorted = this.order.column === column;
        const arrow = !isSorted ? '' : this.order.descending ? ' ↓' : ' ↑';
        const sort = make('button', { attributes: { type: 'button', class: 'sort' }, click: () => this.sortBy(column) }, label + arrow);
        return make('span', { attributes: { role: 'columnheader', class: isNumber ? 'number' : '',
          'aria-sort': !isSorted ? 'none' : this.order.descending ? 'descending' : 'ascending' } }, sort);
      }));
  }

  // Ascending, descending, and then the order of the file again.
  private sortBy(column: Column): void {
    if (this.order.column !== column) this.order = { column, descending: false };
    else if (!this.order.descending) this.order = { column, descending: true };
    else this.order = { column: 'order', descending: false };
    const at = kColumns.findIndex((one) => one.column === column);
    this.drawHeader();
    this.header.querySelectorAll('button')[at]?.focus();
    this.arrange();
  }

  private arrange(): void {
    const pattern = compilePattern(this.filter.value);
    this.problem.textContent = pattern.problem ?? '';
    this.filter.setAttribute('aria-invalid', String(pattern.problem !== null));
    this.shown = arrange(this.rows, pattern, this.order);
    this.active = Math.min(this.active, Math.max(0, this.shown.length - 1));
    this.grid.setAttribute('aria-rowcount', String(this.shown.length + 1));
    this.whole = this.shown.length * kRowHeight;
    this.tall = Math.min(kMostTall, this.whole);
    this.content.style.height = `${this.tall}px`;
    this.view.scrollTop = 0;
    this.active = 0;
    this.drawTotals();
    this.plan();
  }

  private drawTotals(): void {
    const chosen = this.selected.size > 0;
    const totals = totalsOf(this.rows, chosen ? this.selected : this.shown);
    const what = chosen ? `${plural(totals.tensors, 'tensor')} selected` : this.shown.length < this.rows.length
      ? `${countText(totals.tensors)} of ${plural(this.rows.length, 'tensor')}` : plural(totals.tensors, 'tensor');
    this.totals.textContent = `${what} · ${shortCount(totals.elements)} elements · ${bytesText(totals.bytes)}`;
  }

  private plan(): void {
    if (this.isPlanned) return;
    this.isPlanned = true;
    requestAnimationFrame(() => {
      this.isPlanned = false;
      this.draw();
    });
  }

  // Sizes change rarely, and asking for them makes the browser lay out what was changed before.
  private measure(): void {
    this.seen = this.view.clientHeight;
    this.header.style.paddingRight = `${12 + this.view.offsetWidth - this.view.clientWidth}px`; // the width of a scroll bar
    this.plan();
  }

  // How far the rows would be scrolled if the element were as tall as all of them, for one that is at `top`.
  private scrolled(top: number): number {
    const { whole, tall, seen } = this;
    return tall >= whole || tall <= seen ? top : (top * (whole - seen)) / (tall - seen);
  }

  private draw(): void {
    const top = this.view.scrollTop;
    const offset = this.scrolled(top);
    const first = Math.max(0, Math.floor(offset / kRowHeight) - kSpare);
    const last = Math.min(this.shown.length, Math.ceil((offset + this.seen) / kRowHeight) + kSpare);
    while (this.pool.length < last - first) this.pool.push(this.newRow());
    const shift = top - offset;
    for (let slot = 0; slot < this.pool.length; ++slot) {
      const place = first + slot;
      const row = this.pool[place % this.pool.length]!;
      if (place < last) this.drawRow(row, place, shift + place * kRowHeight);
      else forget(row);
    }
    this.tellActive(this.active >= first && this.active < last ? `row-${this.active}` : null);
  }

  private tellActive(id: string | null): void {
    if (id === this.view.getAttribute('aria-activedescendant')) return;
    if (id === null) this.view.removeAttribute('aria-activedescendant');
    else this.view.setAttribute('aria-activedescendant', id);
  }

  private newRow(): PooledRow {
    const texts = kColumns.map(() => document.createTextNode(''));
    const cells = kColumns.map(({ isNumber }, column) => make('span', { attributes: { role: 'gridcell', class: isNumber ? 'number' : '' } }, texts[column]!));
    const element = make('div', { attributes: { role: 'row', class: 'grid-row' } },
      make('span', { attributes: { role: 'gridcell', class: 'grid-check', 'aria-label': 'Selected' } }), ...cells);
    const row: PooledRow = { element, texts, name: cells[0]!, at: -1, place: -1, top: NaN, isSelected: null, isActive: false };
    element.addEventListener('click', (event) => {
      const { place } = row;
      this.active = place;
      if ((event.target as Element).classList.contains('grid-check') || event.ctrlKey || event.metaKey || event.shiftKey) this.select(place, event.shiftKey);
      else this.open(this.shown[place]!);
      this.plan();
    });
    this.content.append(element);
    return row;
  }

  // Touches only what differs from what the element shows: scrolling moves few rows and changes fewer.
  private drawRow(row: PooledRow, place: number, top: number): void {
    const { element } = row;
    const at = this.shown[place]!;
    if (row.place < 0) element.hidden = false;
    if (row.top !== top) element.style.top = `${(row.top = top)}px`;
    const isSelected = this.selected.has(at);
    if (row.isSelected !== isSelected) element.setAttribute('aria-selected', String((row.isSelected = isSelected)));
    const isActive = place === this.active;
    if (row.isActive !== isActive) element.classList.toggle('active', (row.isActive = isActive));
    if (row.place !== place) {
      row.place = place;
      element.id = `row-${place}`;
      element.setAttribute('aria-rowindex', String(place + 2));
    }
    if (row.at !== at) this.fillRow(row, at);
  }

  private fillRow(row: PooledRow, at: number): void {
    row.at = at;
    const tensor = this.rows[at]!;
    kColumns.forEach(({ text }, column) => {
      const [node, shown] = [row.texts[column]!, text(tensor)];
      if (node.data !== shown) node.data = shown;
    });
    row.name.title = tensor.name;
  }

  private select(place: number, isRange: boolean): void {
    const at = this.shown[place];
    if (at === undefined) return;
    if (isRange) {
      const [from, to] = [Math.min(this.anchor, place), Math.max(this.anchor, place)];
      for (const one of this.shown.slice(from, to + 1)) this.selected.add(one);
    } else {
      if (!this.selected.delete(at)) this.selected.add(at);
      this.anchor = place;
    }
    this.drawTotals();
  }

  private selectShown(): void {
    for (const at of this.shown) this.selected.add(at);
    this.drawTotals();
    this.plan();
  }

  private clear(): void {
    this.selected.clear();
    this.drawTotals();
    this.plan();
  }

  private onKey(event: KeyboardEvent): void {
    const page = Math.max(1, Math.floor(this.seen / kRowHeight) - 1);
    const moves: Record<string, number> = { ArrowDown: this.active + 1, ArrowUp: this.active - 1, PageDown: this.active + page, PageUp: this.active - page, Home: 0, End: this.shown.length - 1 };
    const target = moves[event.key];
    if (target !== undefined) this.moveTo(target);
    else if (event.key === ' ') this.select(this.active, event.shiftKey);
    else if (event.key === 'a' && (event.ctrlKey || event.metaKey)) this.selectShown();
    else if (event.key === 'Enter' && this.shown[this.active] !== undefined) this.open(this.shown[this.active]!);
    else return;
    event.preventDefault();
    this.plan();
  }

  private moveTo(place: number): void {
    this.active = Math.max(0, Math.min(this.shown.length - 1, place));
    const top = this.active * kRowHeight;
    const offset = this.scrolled(this.view.scrollTop);
    if (top < offset) this.scrollTo(top);
    else if (top + kRowHeight > offset + this.seen) this.scrollTo(top + kRowHeight - this.seen);
    const at = this.shown[this.active];
    if (at !== undefined) announce(`${this.rows[at]!.name}, ${this.rows[at]!.dtype}, ${shapeText(this.rows[at]!.shape)}`);
  }

  private scrollTo(offset: number): void {
    const { whole, tall, seen } = this;
    this.view.scrollTop = tall >= whole || whole <= seen ? offset : (offset * (tall - seen)) / (whole - seen);
  }
}

// A row out of use: its id may belong to another by the time it is used again.
function forget(row: PooledRow): void {
  if (row.place < 0) return;
  row.element.hidden = true;
  row.element.removeAttribute('id');
  row.place = -1;
}
