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

export class TensorTable {
  readonly element: HTMLElement;
  private readonly rows: readonly Row[];
  private readonly open: (at: number) => void;
  private readonly view = make('div', { attributes: { class: 'grid-view', role: 'rowgroup', tabindex: '0', 'aria-label': 'Tensors: arrow keys move, Space selects, Enter opens' } });
  private readonly tall = make('div', { attributes: { class: 'grid-tall', role: 'presentation' } });
  private readonly header = make('div', { attributes: { role: 'row', class: 'grid-row grid-head', 'aria-rowindex': '1' } });
  private readonly grid = make('div', { attributes: { role: 'grid', class: 'grid', 'aria-label': 'Tensors', 'aria-multiselectable': 'true' } }, this.header, this.view);
  private readonly totals = make('p', { attributes: { class: 'totals', role: 'status', id: 'tensor-totals' } });
  private readonly problem = make('p', { attributes: { class: 'field-error', role: 'status' } });
  private readonly filter = make('input', { attributes: { type: 'search', spellcheck: 'false', placeholder: 'attn|mlp' } });
  private readonly selected = new Set<number>();
  private readonly pool: HTMLElement[] = [];
  private order: Order = { column: 'order', descending: false };
  private shown: number[] = [];
  private active = 0;
  private anchor = 0;
  private isPlanned = false;

  constructor(archive: Archive, open: (at: number) => void) {
    this.rows = archive.tensors;
    this.open = open;
    this.view.append(this.tall);
    this.element = box('tensor-table', box('toolbar', field('Filter by name (regular expression)', this.filter, this.problem),
      box('buttons', button('Select all shown', () => this.selectShown()), button('Clear selection', () => this.clear()))), this.totals, this.grid);
    this.filter.addEventListener('input', () => this.arrange());
    this.view.addEventListener('scroll', () => this.plan(), { passive: true });
    this.view.addEventListener('keydown', (event) => this.onKey(event));
    this.view.addEventListener('focus', () => this.plan());
    new ResizeObserver(() => this.plan()).observe(this.view);
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
    this.tall.style.height = `${Math.min(kMostTall, this.shown.length * kRowHeight)}px`;
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

  // Where the rows would be scrolled to if the element were as tall as all of them.
  private scrolled(): number {
    const [whole, tall, seen] = [this.shown.length * kRowHeight, this.tall.clientHeight, this.view.clientHeight];
    return tall >= whole || tall <= seen ? this.view.scrollTop : (this.view.scrollTop * (whole - seen)) / (tall - seen);
  }

  private draw(): void {
    const offset = this.scrolled();
    const first = Math.max(0, Math.floor(offset / kRowHeight) - kSpare);
    const last = Math.min(this.shown.length, Math.ceil((offset + this.view.clientHeight) / kRowHeight) + kSpare);
    while (this.pool.length < last - first) this.pool.push(this.newRow());
    const shift = this.view.scrollTop - offset;
    this.header.style.paddingRight = `${12 + this.view.offsetWidth - this.view.clientWidth}px`; // the width of a scroll bar
    for (let slot = 0; slot < this.pool.length; ++slot) {
      const place = first + slot;
      const element = this.pool[place % this.pool.length]!;
      element.hidden = place >= last;
      if (place < last) this.drawRow(element, place, shift + place * kRowHeight);
      else forget(element);
    }
    this.view.setAttribute('aria-activedescendant', this.shown.length > 0 && this.active >= first && this.active < last ? `row-${this.active}` : '');
    if (this.shown.length === 0) this.view.removeAttribute('aria-activedescendant');
  }

  private newRow(): HTMLElement {
    const element = make('div', { attributes: { role: 'row', class: 'grid-row' } },
      make('span', { attributes: { role: 'gridcell', class: 'grid-check', 'aria-label': 'Selected' } }),
      ...kColumns.map(({ isNumber }) => make('span', { attributes: { role: 'gridcell', class: isNumber ? 'number' : '' } })));
    element.addEventListener('click', (event) => {
      const place = Number(element.dataset['place']);
      this.active = place;
      if ((event.target as Element).classList.contains('grid-check') || event.ctrlKey || event.metaKey || event.shiftKey) this.select(place, event.shiftKey);
      else this.open(this.shown[place]!);
      this.plan();
    });
    this.tall.append(element);
    return element;
  }

  private drawRow(element: HTMLElement, place: number, top: number): void {
    const at = this.shown[place]!;
    element.style.transform = `translateY(${top}px)`;
    const isSelected = this.selected.has(at);
    element.setAttribute('aria-selected', String(isSelected));
    element.classList.toggle('active', place === this.active);
    if (element.dataset['at'] === String(at) && element.dataset['place'] === String(place)) return;
    element.dataset['at'] = String(at);
    element.dataset['place'] = String(place);
    element.id = `row-${place}`;
    element.setAttribute('aria-rowindex', String(place + 2));
    kColumns.forEach(({ text }, column) => {
      const cell = element.children[column + 1]!;
      cell.textContent = text(this.rows[at]!);
    });
    (element.children[1] as HTMLElement).title = this.rows[at]!.name;
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
    const page = Math.max(1, Math.floor(this.view.clientHeight / kRowHeight) - 1);
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
    const [top, seen] = [this.active * kRowHeight, this.view.clientHeight];
    const offset = this.scrolled();
    if (top < offset) this.scrollTo(top);
    else if (top + kRowHeight > offset + seen) this.scrollTo(top + kRowHeight - seen);
    const at = this.shown[this.active];
    if (at !== undefined) announce(`${this.rows[at]!.name}, ${this.rows[at]!.dtype}, ${shapeText(this.rows[at]!.shape)}`);
  }

  private scrollTo(offset: number): void {
    const [whole, tall, seen] = [this.shown.length * kRowHeight, this.tall.clientHeight, this.view.clientHeight];
    this.view.scrollTop = tall >= whole || whole <= seen ? offset : (offset * (tall - seen)) / (whole - seen);
  }
}

// A row out of use: its id may belong to another by the time it is used again.
function forget(element: HTMLElement): void {
  element.removeAttribute('id');
  delete element.dataset['place'];
  delete element.dataset['at'];
}
