// Two files: which tensors are renamed, changed or missing, how much values changed, and in which layers.

import { countKinds, differences, kKinds, kMostCompared, profile } from '../changes.ts';
import type { Archive, DiffEntry, DiffKind, DiffReport } from '../engine.ts';
import { engine } from '../engine.ts';
import { failureOf, isCancelled } from '../failure.ts';
import { bytesText, countText, plural, valueText } from '../text.ts';
import { barChart, histogram } from './bars.ts';
import { box, button, field, fill, make, select, type Child } from './element.ts';
import { failureCard } from './failure_card.ts';

const kAtATime = 200;

// A file that was given with the first one.
export interface Other {
  title: string;
  choose: () => void;
}

export class CompareView {
  readonly element: HTMLElement;
  private readonly first: Archive;
  private readonly work = new AbortController();
  private readonly result = box('compare-result');
  private second: Archive | null = null;
  private picking: AbortController | null = null;

  constructor(first: Archive, firstName: string, others: readonly Other[], choose: () => void) {
    this.first = first;
    const listed = others.length === 0 ? null : listOf(others);
    const toolbar = box('toolbar', make('p', {}, `Compare ${firstName} with a second file: choose one, or drop it here.`), listed, button('Choose the second file', choose, 'primary'));
    this.element = box('compare-view', toolbar, this.result);
  }

  // Takes the archive over, and closes it at the end.
  async compareWith(second: Archive, name: string): Promise<void> {
    void this.second?.close();
    this.second = second;
    const progress = make('progress', { attributes: { max: '1', value: '0', 'aria-label': 'Comparison' } });
    this.result.replaceChildren(make('p', { attributes: { role: 'status' } }, `Comparing with ${name}`), progress);
    try {
      const report = await (await engine()).diff(this.first, second, { signal: this.work.signal, onProgress: (done, total) => { progress.value = total > 0 ? done / total : 1; } });
      if (this.second === second) this.draw(report, name);
    } catch (error) {
      if (!isCancelled(error) && this.second === second) this.result.replaceChildren(failureCard(failureOf(error)));
    }
  }

  fail(error: unknown): void {
    this.result.replaceChildren(failureCard(failureOf(error)));
  }

  stop(): void {
    this.work.abort();
    this.picking?.abort();
    void this.second?.close();
    this.second = null;
  }

  private draw({ entries, equal }: DiffReport, name: string): void {
    const counts = countKinds(entries);
    const chosen = new Set<DiffKind>(kKinds.map(([kind]) => kind).filter((kind) => kind !== 'same' && counts.has(kind)));
    if (chosen.size === 0) chosen.add('same');
    const table = box('table-scroll');
    const detail = make('section', { attributes: { class: 'change-detail', 'aria-live': 'polite' } });
    const redraw = (): void => table.replaceChildren(this.table(entries.filter(({ kind }) => chosen.has(kind)), detail));
    const toggles = kKinds.filter(([kind]) => counts.has(kind)).map(([kind, label]) => {
      const toggle = button(`${countText(counts.get(kind)!)} ${label}`, () => {
        if (!chosen.delete(kind)) chosen.add(kind);
        toggle.setAttribute('aria-pressed', String(chosen.has(kind)));
        redraw();
      }, `pill ${kind}`);
      toggle.setAttribute('aria-pressed', String(chosen.has(kind)));
      return toggle;
    });
    redraw();
    fill(this.result, make('p', { attributes: { class: equal ? 'verdict good' : 'verdict', role: 'status' } },
      equal ? `${name} holds the same tensors.` : `${name} differs: ${kKinds.filter(([kind]) => counts.has(kind)).map(([kind, label]) => `${countText(counts.get(kind)!)} ${label}`).join(', ')}.`),
      box('buttons', ...toggles), ...this.profileOf(entries), detail, table);
    const largest = entries.filter(({ change }) => change !== undefined && change.differing > 0).sort((a, b) => b.change!.maxAbs - a.change!.maxAbs)[0];
    if (largest !== undefined && largest.change!.elements <= 1 << 20) void this.showChanges(largest, detail);
  }

  private profileOf(entries: readonly DiffEntry[]): Child[] {
    const layers = profile(entries, new Map(this.first.tensors.map((tensor) => [tensor.name, tensor])));
    if (layers.length < 2 || layers.every(({ differing }) => differing === 0)) return [];
    const ends = [`layer ${layers[0]!.layer}`, `layer ${layers.at(-1)!.layer}`] as const;
    return [box('charts', barChart(layers.map(({ layer, maxAbs }) => ({ label: `layer ${layer}: ${valueText(maxAbs, 4)}`, size: maxAbs })), 'Largest change in each layer', ends),
      barChart(layers.map(({ layer, differing, elements }) => ({ label: `layer ${layer}: ${countText(differing)} of ${countText(elements)}`, size: elements > 0 ? differing / elements : 0 })),
        'Share of changed values in each layer', ends))];
  }

  private table(entries: readonly DiffEntry[], detail: HTMLElement): HTMLElement {
    const body = make('tbody', {});
    const heads = [['What', ''], ['Tensor', ''], ['Changed values', 'number'], ['Largest change', 'number'], ['Relative', 'number'], ['ULP', 'number'], ['Remark', '']] as const;
    const fill = (begin: number): void => {
      body.append(...entries.slice(begin, begin + kAtATime).map((entry) => this.row(entry, detail)));
      const left = entries.length - begin - kAtATime;
      if (left <= 0) return;
      const more = make('tr', {}, make('td', { attributes: { colspan: String(heads.length) } }, button(`Show more (${countText(left)})`, () => {
        more.remove();
        fill(begin + kAtATime);
      })));
      body.append(more);
    };
    fill(0);
    return make('table', { attributes: { class: 'changes' } }, make('thead', {}, make('tr', {}, ...heads.map(([text, className]) => make('th', { attributes: { scope: 'col', class: className } }, text)))), body);
  }

  private row(entry: DiffEntry, detail: HTMLElement): HTMLElement {
    const { kind, nameA, nameB, note, change } = entry;
    const name = nameA === nameB || nameB === '' ? nameA : nameA === '' ? nameB : `${nameA} → ${nameB}`;
    const number = (text: string): HTMLElement => make('td', { attributes: { class: 'number' } }, text);
    const canShow = change !== undefined && change.differing > 0;
    return make('tr', {}, make('td', {}, make('span', { attributes: { class: `kind ${kind}` } }, kKinds.find(([one]) => one === kind)![1])),
      make('td', { attributes: { class: 'name' } }, canShow ? button(name, () => void this.showChanges(entry, detail), 'link') : name),
      number(change === undefined ? '' : `${countText(change.differing)} of ${countText(change.elements)}`), number(change === undefined ? '' : valueText(change.maxAbs, 4)),
      number(change === undefined ? '' : valueText(change.maxRel, 4)), number(change === undefined ? '' : countText(change.maxUlp)), make('td', {}, note));
  }

  // The histogram of b - a of one tensor.
  private async showChanges(entry: DiffEntry, detail: HTMLElement): Promise<void> {
    const { change, nameA } = entry;
    if (this.second === null || change === undefined) return;
    this.picking?.abort();
    const picking = this.picking = new AbortController();
    const title = make('h3', {}, `Changes in ${nameA}`);
    if (change.elements > kMostCompared) {
      detail.replaceChildren(title, make('p', { attributes: { class: 'hint' } }, `The histogram covers tensors of up to ${plural(kMostCompared, 'element')}; this one has ${countText(change.elements)} (${bytesText(change.elements * 4)} as f32).`));
      return;
    }
    detail.replaceChildren(title, make('p', { attributes: { class: 'hint' } }, 'Reading both tensors'));
    try {
      const limit = Number.isFinite(change.maxAbs) && change.maxAbs > 0 ? change.maxAbs : 1;
      const { counts, edges, unchanged, notFinite } = await differences(this.first, this.second, entry, limit, 61, picking.signal);
      if (picking.signal.aborted) return;
      detail.replaceChildren(title, histogram(counts, edges, `Second minus first: ${countText(change.elements - unchanged)} of ${plural(change.elements, 'value')} changed`),
        ...(notFinite > 0 ? [make('p', { attributes: { class: 'bad' } }, `${plural(notFinite, 'difference')} not finite`)] : []));
    } catch (error) {
      if (!picking.signal.aborted && !isCancelled(error)) detail.replaceChildren(title, failureCard(failureOf(error)));
    }
  }
}

function listOf(others: readonly Other[]): HTMLElement {
  const list = select([['', 'None'], ...others.map(({ title }, at) => [String(at), title] as const)], () => {
    if (list.value !== '') others[Number(list.value)]!.choose();
  });
  return field('Second file', list);
}
