// One tensor: its numbers in summary, as a picture and as text.

import type { Archive, Statistics, TensorInfo } from '../engine.ts';
import { failureOf, isCancelled } from '../failure.ts';
import { numpyText } from '../numpy.ts';
import { firstAxes, indexOf, planeOf, type Axes, type Plane } from '../plane.ts';
import { saveBytes } from '../save.ts';
import { bytesText, countText, plural, shapeText, valueText } from '../text.ts';
import { histogram } from './bars.ts';
import { announce, box, button, byId, field, fill, iconButton, make, select, type Child } from './element.ts';
import { facts } from './facts.ts';
import { HeatMap } from './heat_map.ts';
import { failureCard } from './failure_card.ts';
import { SingularView } from './singular_view.ts';

// Larger tensors are gone through on request only.
const kAtOnce = 64 * 2 ** 20;
const kTextRows = 16;
const kTextColumns = 8;
const kScales = 64;
const kHexBytes = 256;

export class TensorPanel {
  private readonly panel = byId('tensor', HTMLElement);
  private readonly archive: Archive;
  private readonly tensor: TensorInfo;
  private readonly work = new AbortController();
  private readonly opener: Element | null = document.activeElement;
  private axes: Axes;
  private plane: Plane | null = null;
  private map: HeatMap | null = null;
  private singular: SingularView | null = null;
  private textRow = 0;
  private textColumn = 0;
  private copied: { values: ArrayLike<number>; rows: number; columns: number; dtype: 'float32' | 'float64' } | null = null;
  private readonly text = make('pre', { attributes: { class: 'values', tabindex: '0', 'aria-label': 'Values' } });
  private readonly statistics = box('statistics');
  private textTimer = 0;
  private textReading: AbortController | null = null;

  constructor(archive: Archive, tensor: TensorInfo, closed: () => void) {
    this.archive = archive;
    this.tensor = tensor;
    this.axes = firstAxes(tensor.shape);
    const close = (): void => {
      this.stop();
      this.panel.hidden = true;
      this.panel.replaceChildren();
      if (this.opener instanceof HTMLElement && this.opener.isConnected) this.opener.focus();
      closed();
    };
    const name = make('h2', { attributes: { id: 'tensor-name', tabindex: '-1' } }, tensor.name);
    fill(this.panel, box('panel-head', name, iconButton('close', 'Close the tensor', close)), this.identity(), this.actions(), ...this.sections());
    this.panel.onkeydown = (event) => {
      if (event.key === 'Escape') close();
    };
    this.panel.hidden = false;
    this.panel.scrollTop = 0;
    name.focus();
  }

  stop(): void {
    this.work.abort();
    this.map?.stop();
    this.singular?.stop();
    clearTimeout(this.textTimer);
    this.textReading?.abort();
  }

  private identity(): HTMLElement {
    const { tensor } = this;
    const file = this.archive.files[tensor.file];
    return facts([
      ['Type', tensor.quantised === undefined ? tensor.dtype : `${tensor.dtype}, blocks of ${tensor.quantised.blockElements} elements in ${plural(tensor.quantised.blockBytes, 'byte')}`],
      ['Shape', shapeText(tensor.shape)], ['Elements', countText(tensor.elements)], ['Size', bytesText(tensor.bytes)],
      ['Stored', `${tensor.deflated ? `compressed to ${bytesText(tensor.storedBytes)} ` : ''}at byte ${countText(tensor.offset)}${file !== undefined && this.archive.files.length > 1 ? ` of ${file.name}` : ''}`],
      ...(tensor.scheme === undefined || tensor.scheme === '' ? [] : [['Packed as', tensor.scheme] as const]),
    ]);
  }

  private actions(): HTMLElement {
    const { tensor } = this;
    const fileName = `${tensor.name.replace(/[^\w.-]+/g, '_')}.npy`;
    const result = make('p', { attributes: { class: 'hint', role: 'status' } });
    const download = button('Download .npy', async () => {
      download.disabled = true;
      result.textContent = '';
      try {
        saveBytes(await this.archive.toNpy(tensor.name, { signal: this.work.signal }), fileName);
      } catch (error) {
        if (!isCancelled(error)) result.textContent = failureOf(error).message;
      }
      download.disabled = false;
    });
    return box('panel-actions', box('buttons', download), result);
  }

  private sections(): Child[] {
    const { tensor } = this;
    if (!tensor.numeric) return [this.section('Bytes', this.hex())];
    if (tensor.elements === 0) return [make('p', {}, 'This tensor has no elements.')];
    this.plane = planeOf(this.archive, tensor, this.axes);
    this.map = new HeatMap(this.plane, (row, column) => this.showText(row, column));
    if (tensor.shape.length >= 2) this.singular = new SingularView(this.archive, tensor, this.axes);
    if (tensor.bytes <= kAtOnce) void this.computeStatistics();
    else this.statistics.append(button(`Compute from ${bytesText(tensor.bytes)}`, () => void this.computeStatistics()));
    return [this.section('Statistics', this.statistics), this.section('Heat map', this.axisChoice(), this.map.element),
      this.section('Values', this.text, box('buttons', button('Copy as NumPy', () => void this.copy()))),
      ...(this.singular === null ? [] : [this.section('Singular values', this.singular.element)]),
      ...(tensor.quantised === undefined ? [] : [this.section('Scales of blocks', this.scales())])];
  }

  private section(title: string, ...children: Child[]): HTMLElement {
    return make('section', {}, make('h3', {}, title), ...children);
  }

  // With more than two dimensions: which two are shown, and where along the others.
  private axisChoice(): Child {
    const { shape } = this.tensor;
    if (shape.length < 3) return null;
    const options = shape.map((size, axis) => [String(axis), `${axis} (${size})`] as const);
    const changed = (): void => {
      this.plane = planeOf(this.archive, this.tensor, this.axes);
      this.map!.setPlane(this.plane);
      this.singular?.setAxes(this.axes);
    };
    const choice = (label: string, key: 'rows' | 'columns', other: 'rows' | 'columns'): HTMLElement => {
      const control = select(options, () => {
        if (Number(control.value) === this.axes[other]) this.axes[other] = this.axes[key];
        this.axes[key] = Number(control.value);
        draw();
        changed();
      });
      control.value = String(this.axes[key]);
      return field(label, control);
    };
    const place = (axis: number): HTMLElement => {
      const control = make('input', { attributes: { type: 'number', min: '0', max: String(shape[axis]! - 1), value: String(this.axes.fixed[axis]) } });
      control.addEventListener('change', () => {
        this.axes.fixed[axis] = Math.max(0, Math.min(shape[axis]! - 1, Math.trunc(Number(control.value)) || 0));
        control.value = String(this.axes.fixed[axis]);
        changed();
      });
      return field(`Index of ${axis}`, control);
    };
    const row = box('axes');
    const draw = (): void => row.replaceChildren(choice('Rows: dimension', 'rows', 'columns'), choice('Columns: dimension', 'columns', 'rows'),
      ...shape.flatMap((_, axis) => (axis === this.axes.rows || axis === this.axes.columns ? [] : [place(axis)])));
    draw();
    return row;
  }

  private async computeStatistics(): Promise<void> {
    const progress = make('progress', { attributes: { max: '1', value: '0', 'aria-label': 'Statistics' } });
    this.statistics.replaceChildren(progress);
    try {
      const statistics = await this.archive.stats(this.tensor.name, { bins: 64, signal: this.work.signal,
        onProgress: (done, total) => { progress.value = total > 0 ? done / total : 1; } });
      fill(this.statistics, ...this.statisticsOf(statistics));
      this.map?.setSpread(statistics);
    } catch (error) {
      if (!isCancelled(error)) this.statistics.replaceChildren(failureCard(failureOf(error)));
    }
  }

  private statisticsOf(numbers: Statistics): Child[] {
    const { histogram: bins } = numbers;
    const outside = bins === null ? 0 : bins.below + bins.above;
    return [
      facts([['Minimum', valueText(numbers.min)], ['Maximum', valueText(numbers.max)], ['Mean', valueText(numbers.mean)], ['Standard deviation', valueText(numbers.std)],
        ['Zeros', this.shareOf(numbers.zeros, numbers.count)], ['Denormals', this.shareOf(numbers.denormals, numbers.count)]]),
      this.places('NaN', numbers.nan, numbers.firstNan),
      this.places('Inf', numbers.positiveInfinity + numbers.negativeInfinity, numbers.firstInfinity),
      bins === null ? null : histogram(bins.counts, Array.from({ length: bins.counts.length + 1 }, (_, at) => bins.low + ((bins.high - bins.low) * at) / bins.counts.length),
        `Distribution of ${plural(numbers.count, 'value')}${outside > 0 ? `, ${countText(outside)} of them outside` : ''}`),
    ];
  }

  private shareOf(part: number, whole: number): string {
    return part === 0 ? '0' : `${countText(part)} (${((100 * part) / whole).toPrecision(2)} %)`;
  }

  // Where values are that should not be; each leads to its cell.
  private places(what: string, count: number, first: readonly number[]): Child {
    if (count === 0) return make('p', { attributes: { class: 'good' } }, `No ${what}`);
    return box('bad-values', make('p', { attributes: { class: 'bad' } }, `${countText(count)} × ${what}, the first at:`),
      box('buttons', ...first.map((position) => button(`[${indexOf(this.tensor.shape, position).join(', ')}]`, () => this.goTo(position), 'small'))));
  }

  private goTo(position: number): void {
    const index = indexOf(this.tensor.shape, position);
    if (index.length < 2) {
      this.map?.showCell(Math.floor(position / this.plane!.columns), position % this.plane!.columns);
    } else {
      this.axes.fixed = index;
      this.plane = planeOf(this.archive, this.tensor, this.axes);
      this.map?.setPlane(this.plane);
      if (index.length > 2) this.singular?.setAxes(this.axes);
      this.map?.showCell(index[this.axes.rows]!, index[this.axes.columns]!);
    }
    this.map?.canvas.scrollIntoView({ block: 'nearest' });
  }

  // The corner of what the heat map shows.
  private showText(row: number, column: number): void {
    this.textRow = row;
    this.textColumn = column;
    clearTimeout(this.textTimer);
    this.textTimer = window.setTimeout(() => void this.readText(), 120);
  }

  private async readText(): Promise<void> {
    const plane = this.plane!;
    const [row, column] = [this.textRow, this.textColumn];
    const rows = Math.min(kTextRows, plane.rows - row);
    const columns = Math.min(kTextColumns, plane.columns - column);
    this.textReading?.abort();
    const reading = this.textReading = new AbortController();
    try {
      const { values } = await plane.read({ row, column, rows, columns, step: 1 }, reading.signal);
      if (reading.signal.aborted) return;
      this.copied = { values, rows, columns, dtype: values instanceof Float64Array ? 'float64' : 'float32' };
      const cell = (y: number, x: number): string => (plane.has(row + y, column + x) ? valueText(values[y * columns + x]!) : '').padStart(13);
      const head = `${' '.repeat(8)}${Array.from({ length: columns }, (_, x) => String(column + x).padStart(13)).join('')}`;
      this.text.textContent = [head, ...Array.from({ length: rows }, (_, y) =>
        String(row + y).padStart(8) + Array.from({ length: columns }, (__, x) => cell(y, x)).join(''))].join('\n');
    } catch (error) {
      if (!reading.signal.aborted && !isCancelled(error)) this.text.textContent = failureOf(error).message;
    }
  }

  private async copy(): Promise<void> {
    if (this.copied === null) return;
    const { values, rows, columns, dtype } = this.copied;
    await navigator.clipboard.writeText(numpyText(values, rows, columns, dtype));
    announce(`Copied ${rows} by ${columns} values`);
  }

  private scales(): HTMLElement {
    const place = box('scales', 'Reading');
    void (async () => {
      const { blockElements } = this.tensor.quantised!;
      const run = await this.archive.scales(this.tensor.name, 0, Math.min(this.tensor.elements, blockElements * kScales));
      if (run === null) return place.replaceChildren(make('p', { attributes: { class: 'hint' } }, 'This type has no scales of its own.'));
      const list = (values: Float32Array): string => Array.from(values, (value) => valueText(value, 5)).join('  ');
      place.replaceChildren(make('p', { attributes: { class: 'hint' } }, `The first ${plural(run.scales.length, 'scale')}, one for ${run.blockElements} elements`),
        make('pre', { attributes: { class: 'values wrap', tabindex: '0', 'aria-label': 'Scales' } }, list(run.scales)),
        ...(run.mins === undefined ? [] : [make('p', { attributes: { class: 'hint' } }, 'Minimums, which are subtracted'), make('pre', { attributes: { class: 'values wrap', tabindex: '0', 'aria-label': 'Minimums' } }, list(run.mins))]));
    })().catch((error: unknown) => place.replaceChildren(failureOf(error).message));
    return place;
  }

  private hex(): HTMLElement {
    const place = make('pre', { attributes: { class: 'values', tabindex: '0', 'aria-label': 'First bytes' } });
    void this.archive.payload(this.tensor.name, { begin: 0, end: Math.min(kHexBytes, this.tensor.bytes) }, { signal: this.work.signal }).then((bytes) => {
      const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0'));
      place.textContent = Array.from({ length: Math.ceil(digits.length / 16) }, (_, line) =>
        `${(line * 16).toString(16).padStart(8, '0')}  ${digits.slice(line * 16, line * 16 + 16).join(' ')}`).join('\n');
    }, (error: unknown) => { place.textContent = failureOf(error).message; });
    return place;
  }
}
