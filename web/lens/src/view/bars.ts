// Bars in SVG: histograms of values and of changes, profiles over layers. A text says the same to screen readers.

import { valueText } from '../text.ts';
import { make, svg } from './element.ts';

export interface Bar {
  label: string; // what the pointer shows
  size: number;
}

const kWidth = 480;

export function barChart(bars: readonly Bar[], caption: string, axis: readonly [left: string, right: string], height = 120): HTMLElement {
  const largest = bars.reduce((most, { size }) => Math.max(most, size), 0);
  const step = kWidth / Math.max(1, bars.length);
  const gap = step > 6 ? 1 : 0;
  const drawing = svg('svg', { viewBox: `0 0 ${kWidth} ${height}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': caption, class: 'bars' },
    ...bars.map(({ label, size }, at) => {
      const share = largest > 0 ? size / largest : 0;
      // What is there is visible, however small.
      const tall = size > 0 ? Math.max(1.5, share * (height - 2)) : 0;
      return svg('rect', { x: at * step, y: height - tall, width: Math.max(0.5, step - gap), height: tall }, svg('title', {}, label));
    }));
  return make('figure', { attributes: { class: 'chart' } }, drawing,
    make('div', { attributes: { class: 'axis', 'aria-hidden': 'true' } }, make('span', {}, axis[0]), make('span', {}, axis[1])),
    make('figcaption', { attributes: { class: 'hint' } }, caption));
}

// `edges` has one more entry than `counts`.
export function histogram(counts: ArrayLike<number>, edges: ArrayLike<number>, what: string): HTMLElement {
  const bars = Array.from(counts, (count, at) => ({ label: `${valueText(edges[at]!, 4)} to ${valueText(edges[at + 1]!, 4)}: ${count}`, size: count }));
  const low = valueText(edges[0] ?? 0, 4);
  const high = valueText(edges[edges.length - 1] ?? 0, 4);
  const peak = bars.reduce((best, bar, at) => (bar.size > bars[best]!.size ? at : best), 0);
  const middle = bars.length === 0 ? '' : `; most between ${valueText(edges[peak]!, 3)} and ${valueText(edges[peak + 1]!, 3)}`;
  return barChart(bars, `${what}, from ${low} to ${high}${middle}`, [low, high]);
}
