// The singular values of a matrix, computed when they are asked for.

import type { Archive, AxisRange, SingularValues, TensorInfo } from '../engine.ts';
import { failureOf, isCancelled } from '../failure.ts';
import type { Axes } from '../plane.ts';
import { curveOf, isSmallEnough, kMostOfMatrix, kMostOfSmallerSide, spectrumOf } from '../spectrum.ts';
import { countText, plural, valueText } from '../text.ts';
import { box, button, fill, make, svg, type Child } from './element.ts';
import { facts } from './facts.ts';
import { failureCard } from './failure_card.ts';

const kWidth = 480;
const kHeight = 120;

export class SingularView {
  readonly element = box('singular');
  private readonly archive: Archive;
  private readonly tensor: TensorInfo;
  private working: AbortController | null = null;

  constructor(archive: Archive, tensor: TensorInfo, axes: Axes) {
    this.archive = archive;
    this.tensor = tensor;
    this.setAxes(axes);
  }

  stop(): void {
    this.working?.abort();
  }

  // Of which dimensions: what was computed for others is gone.
  setAxes(axes: Axes): void {
    this.stop();
    const { shape } = this.tensor;
    const [rows, columns] = [shape[axes.rows]!, shape[axes.columns]!];
    const ranges = shape.map((_, axis): AxisRange => (axis === axes.rows || axis === axes.columns ? {} : axes.fixed[axis]!));
    fill(this.element, isSmallEnough(rows, columns)
      ? button(`Compute ${countText(Math.min(rows, columns))} from ${countText(rows)} × ${countText(columns)}`, () => void this.compute(ranges))
      : make('p', { attributes: { class: 'hint' } }, `${countText(rows)} × ${countText(columns)} is too large: the smaller side may have ${countText(kMostOfSmallerSide)}, and both together ${countText(kMostOfMatrix)} elements.`));
  }

  private async compute(ranges: readonly AxisRange[]): Promise<void> {
    this.stop();
    const working = this.working = new AbortController();
    const progress = make('progress', { attributes: { max: '1', value: '0', 'aria-label': 'Singular values' } });
    this.element.replaceChildren(progress);
    try {
      const found = await this.archive.singularValues(this.tensor.name, ranges, { signal: working.signal,
        onProgress: (done, total) => { progress.value = total > 0 ? done / total : 1; } });
      if (!working.signal.aborted) fill(this.element, ...this.shown(found));
    } catch (error) {
      if (!working.signal.aborted && !isCancelled(error)) this.element.replaceChildren(failureCard(failureOf(error)));
    }
  }

  private shown(found: SingularValues): Child[] {
    const { values } = found;
    const [largest, smallest] = [values[0]!, values.at(-1)!];
    const { rank, noise, holding } = spectrumOf(found, this.tensor.dtype);
    return [
      facts([['Largest', valueText(largest)], ['Smallest', valueText(smallest)], ['Rank', `${countText(rank)} of ${countText(values.length)}`],
        ['Sum of squares', `half of it in ${plural(holding(0.5), 'value')}, 90 % in ${countText(holding(0.9))}, 99 % in ${countText(holding(0.99))}`]]),
      curve(values, `${plural(values.length, 'singular value')} from ${valueText(largest, 4)} to ${valueText(smallest, 4)}, on a logarithmic scale`),
      make('p', { attributes: { class: 'hint' } }, `The rank counts the values above ${valueText(noise, 3)}: smaller ones may come from rounding alone.`),
    ];
  }
}

function curve(values: Float64Array, caption: string): HTMLElement {
  const points = curveOf(values).map(({ x, y }) => `${(x * kWidth).toFixed(1)},${(2 + y * (kHeight - 4)).toFixed(1)}`).join(' ');
  const drawing = svg('svg', { viewBox: `0 0 ${kWidth} ${kHeight}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': caption, class: 'curve' },
    svg('polyline', { points, 'vector-effect': 'non-scaling-stroke' }));
  return make('figure', { attributes: { class: 'chart' } }, drawing,
    make('div', { attributes: { class: 'axis', 'aria-hidden': 'true' } }, make('span', {}, '1'), make('span', {}, countText(values.length))),
    make('figcaption', { attributes: { class: 'hint' } }, caption));
}
