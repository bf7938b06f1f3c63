// A heat map of a plane of a tensor: pan and zoom with pointer or keys. Only the values in sight are read, and where
// several share a pixel, every n-th.

import { cssColour, kInfColour, kNanColour, valueColour } from '../colours.ts';
import { failureOf, isCancelled } from '../failure.ts';
import type { Patch, Plane } from '../plane.ts';
import { valueText } from '../text.ts';
import { box, iconButton, make, select } from './element.ts';

const kHeight = 340;
const kLargest = 64; // pixels of one cell
const kPause = 60; // ms without movement before values are read

export interface Spread {
  std: number;
  absMax: number;
}

export class HeatMap {
  readonly element: HTMLElement;
  readonly canvas = make('canvas', { attributes: { class: 'heat', tabindex: '0', role: 'application',
    'aria-label': 'Heat map: arrow keys pan, plus and minus zoom, 0 shows everything', 'aria-describedby': 'heat-note' } });
  private readonly note = make('p', { attributes: { class: 'hint', id: 'heat-note', role: 'status' } });
  private readonly hover = make('p', { attributes: { class: 'hover', 'aria-hidden': 'true' } }, 'Point at a cell to see its value.');
  private readonly legend = box('heat-legend');
  private readonly range = select([['deviation', '± 3 standard deviations'], ['tensor', 'Largest value of the tensor'], ['view', 'Largest value in view']], () => this.draw());
  private readonly moved: (row: number, column: number) => void;
  private plane: Plane;
  private spread: Spread | null = null;
  private patch: Patch | null = null;
  // The cell at the upper left corner, and the size of a cell in pixels.
  private row = 0;
  private column = 0;
  private scale = 1;
  private reading: AbortController | null = null;
  private timer = 0;
  private width = 0;

  constructor(plane: Plane, moved: (row: number, column: number) => void) {
    this.plane = plane;
    this.moved = moved;
    this.range.setAttribute('aria-label', 'What the ends of the colour scale stand for');
    this.element = box('heat-map', box('toolbar', this.range, box('buttons', iconButton('plus', 'Zoom in', () => this.zoom(2)),
      iconButton('minus', 'Zoom out', () => this.zoom(0.5)), iconButton('fit', 'Show everything', () => this.fit()))), this.canvas, this.hover, this.legend, this.note);
    this.listen();
    new ResizeObserver(() => {
      if (this.canvas.clientWidth === this.width) return;
      const isFirst = this.width === 0;
      this.width = this.canvas.clientWidth;
      if (isFirst) this.fit();
      else if (this.width > 0) this.move(0, 0);
    }).observe(this.canvas);
  }

  setPlane(plane: Plane): void {
    this.plane = plane;
    this.patch = null;
    this.fit();
  }

  setSpread(spread: Spread): void {
    this.spread = spread;
    this.draw();
  }

  stop(): void {
    clearTimeout(this.timer);
    this.reading?.abort();
  }

  // So near that single cells are seen, with this one in the middle.
  showCell(row: number, column: number): void {
    this.scale = 24;
    this.row = row - kHeight / this.scale / 2;
    this.column = column - this.width / this.scale / 2;
    this.move(0, 0);
  }

  fit(): void {
    if (this.width === 0) return;
    this.scale = this.smallest();
    this.row = this.column = 0;
    this.move(0, 0);
  }

  private smallest(): number {
    return Math.min(kLargest, Math.min(this.width / Math.max(1, this.plane.columns), kHeight / Math.max(1, this.plane.rows)));
  }

  private zoom(factor: number, x = this.width / 2, y = kHeight / 2): void {
    const scale = Math.max(this.smallest(), Math.min(kLargest, this.scale * factor));
    this.row += y / this.scale - y / scale;
    this.column += x / this.scale - x / scale;
    this.scale = scale;
    this.move(0, 0);
  }

  // By cells; the plane stays in sight.
  private move(rows: number, columns: number): void {
    const keep = (at: number, all: number, seen: number): number => Math.max(0, Math.min(at, all - seen));
    this.row = keep(this.row + rows, this.plane.rows, kHeight / this.scale);
    this.column = keep(this.column + columns, this.plane.columns, this.width / this.scale);
    this.draw();
    this.moved(Math.floor(this.row), Math.floor(this.column));
    clearTimeout(this.timer);
    this.reading?.abort();
    this.timer = window.setTimeout(() => void this.read(), this.patch === null ? 0 : kPause);
  }

  private async read(): Promise<void> {
    const step = Math.max(1, Math.ceil(1 / this.scale));
    const [row, column] = [Math.floor(this.row / step) * step, Math.floor(this.column / step) * step];
    const rectangle = { row, column, step, rows: Math.min(this.plane.rows - row, Math.ceil(kHeight / this.scale) + step),
      columns: Math.min(this.plane.columns - column, Math.ceil(this.width / this.scale) + step) };
    if (rectangle.rows <= 0 || rectangle.columns <= 0) {
      this.note.textContent = 'This tensor has no elements.';
      return;
    }
    const reading = this.reading = new AbortController();
    this.canvas.setAttribute('aria-busy', 'true');
    try {
      const patch = await this.plane.read(rectangle, reading.signal);
      if (reading.signal.aborted) return;
      this.patch = patch;
      this.note.textContent = `Rows ${row} to ${row + rectangle.rows - 1} of ${this.plane.rows}, columns ${column} to ${column + rectangle.columns - 1} of ${this.plane.columns}${
        step > 1 ? `; every ${step}th value is shown` : ''}.`;
      this.draw();
      this.canvas.removeAttribute('aria-busy');
    } catch (error) {
      if (reading.signal.aborted || isCancelled(error)) return;
      this.note.textContent = failureOf(error).message;
      this.canvas.removeAttribute('aria-busy');
    }
  }

  private limit(): number {
    const mode = this.range.value;
    if (this.spread !== null && mode === 'deviation' && this.spread.std > 0) return Math.min(this.spread.absMax, 3 * this.spread.std);
    if (this.spread !== null && mode !== 'view') return this.spread.absMax;
    let most = 0;
    for (const value of this.patch?.values ?? []) if (Number.isFinite(value)) most = Math.max(most, Math.abs(value));
    return most;
  }

  private draw(): void {
    if (this.width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(kHeight * ratio);
    const { patch } = this;
    const context = this.canvas.getContext('2d')!;
    context.scale(ratio, ratio);
    if (patch === null || patch.height === 0 || patch.width === 0) return;
    const limit = this.limit();
    this.canvas.dataset['limit'] = String(limit);
    this.canvas.dataset['scale'] = String(this.scale);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.picture(patch, limit), (patch.column - this.column) * this.scale, (patch.row - this.row) * this.scale,
      patch.width * patch.step * this.scale, patch.height * patch.step * this.scale);
    this.drawLegend(limit);
  }

  private picture(patch: Patch, limit: number): HTMLCanvasElement {
    const image = new ImageData(patch.width, patch.height);
    for (let y = 0, at = 0; y < patch.height; ++y) {
      for (let x = 0; x < patch.width; ++x, ++at) {
        const [red, green, blue] = valueColour(patch.values[at]!, limit);
        image.data.set([red, green, blue, this.plane.has(patch.row + y * patch.step, patch.column + x * patch.step) ? 255 : 0], at * 4);
      }
    }
    const small = make('canvas', { attributes: { width: String(patch.width), height: String(patch.height) } });
    small.getContext('2d')!.putImageData(image, 0, 0);
    return small;
  }

  private drawLegend(limit: number): void {
    const strip = make('canvas', { attributes: { width: '121', height: '1', class: 'strip', 'aria-hidden': 'true' } });
    const context = strip.getContext('2d')!;
    for (let x = 0; x <= 120; ++x) {
      context.fillStyle = cssColour(valueColour(((x - 60) / 60) * limit, limit));
      context.fillRect(x, 0, 1, 1);
    }
    const swatch = (colour: readonly [number, number, number], text: string): HTMLElement => {
      const patch = make('span', { attributes: { class: 'swatch', 'aria-hidden': 'true' } });
      patch.style.background = cssColour(colour);
      return make('span', {}, patch, text);
    };
    this.legend.replaceChildren(make('span', {}, valueText(-limit, 3)), strip, make('span', {}, valueText(limit, 3)), swatch(kNanColour, 'NaN'), swatch(kInfColour, 'Inf'));
  }

  private listen(): void {
    let from: { x: number; y: number } | null = null;
    this.canvas.addEventListener('pointerdown', (event) => {
      from = { x: event.clientX, y: event.clientY };
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener('pointermove', (event) => {
      if (from === null) return this.point(event);
      this.move((from.y - event.clientY) / this.scale, (from.x - event.clientX) / this.scale);
      from = { x: event.clientX, y: event.clientY };
    });
    for (const name of ['pointerup', 'pointercancel'] as const) this.canvas.addEventListener(name, () => { from = null; });
    this.canvas.addEventListener('wheel', (event) => {
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 1.25 : 0.8, event.offsetX, event.offsetY);
    }, { passive: false });
    this.canvas.addEventListener('keydown', (event) => this.onKey(event));
  }

  private onKey(event: KeyboardEvent): void {
    const [high, wide] = [kHeight / this.scale / 4, this.width / this.scale / 4];
    switch (event.key) {
      case 'ArrowDown': this.move(high, 0); break;
      case 'ArrowUp': this.move(-high, 0); break;
      case 'ArrowRight': this.move(0, wide); break;
      case 'ArrowLeft': this.move(0, -wide); break;
      case '+': case '=': this.zoom(2); break;
      case '-': this.zoom(0.5); break;
      case '0': this.fit(); break;
      default: return;
    }
    event.preventDefault();
  }

  private point(event: PointerEvent): void {
    const { patch } = this;
    if (patch === null) return;
    const x = Math.floor((this.column + event.offsetX / this.scale - patch.column) / patch.step);
    const y = Math.floor((this.row + event.offsetY / this.scale - patch.row) / patch.step);
    const [row, column] = [patch.row + y * patch.step, patch.column + x * patch.step];
    if (x < 0 || y < 0 || x >= patch.width || y >= patch.height || !this.plane.has(row, column)) return;
    this.hover.textContent = `[${this.plane.position(row, column).join(', ')}] = ${valueText(patch.values[y * patch.width + x]!, 7)}`;
  }
}
