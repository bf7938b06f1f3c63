// What a file is: its facts, the model in it, what that takes in memory, and where the bytes are.

import type { Archive, ModelSummary } from '../engine.ts';
import { bytesText, countText, plural, shortCount } from '../text.ts';
import { box, field, make, type Child } from './element.ts';
import { facts } from './facts.ts';
import { TreemapView } from './treemap_view.ts';

export function overview(archive: Archive, open: (at: number) => void): { element: HTMLElement; treemap: TreemapView } {
  const treemap = new TreemapView(archive.tensors, open);
  return { element: box('overview', box('cards', fileCard(archive), archive.model === null ? null : modelCard(archive.model), sizesCard(archive), contextCard(archive)),
    card('Tensors by size', treemap.element)), treemap };
}

function card(title: string, ...children: Child[]): HTMLElement {
  return make('section', { attributes: { class: 'card' } }, make('h2', {}, title), ...children);
}

function fileCard(archive: Archive): HTMLElement {
  const elements = archive.tensors.reduce((sum, tensor) => sum + tensor.elements, 0);
  const files = archive.files.length > 1 ? [['Files', archive.files.map(({ name, size }) => `${name} (${bytesText(size)})`).join(', ')] as const] : [];
  return card('File', facts([['Format', [archive.format, archive.version].filter((text) => text !== '').join(' ')], ['Producer', archive.producer || 'not told'],
    ['Size', bytesText(archive.bytes)], ['Tensors', countText(archive.tensors.length)], ['Elements', `${countText(elements)}${elements >= 1000 ? ` (${shortCount(elements)})` : ''}`], ...files]));
}

function modelCard(model: ModelSummary): HTMLElement {
  const number = (name: string, value: number | undefined): [string, Child][] => (value === undefined || value === 0 ? [] : [[name, countText(value)]]);
  return card('Model', facts([['Family', model.family], ...(model.name === '' ? [] : [['Name', model.name] as const]), ['Parameters', `${shortCount(model.parameters)} (${countText(model.parameters)})`],
    ...number('Layers', model.layers), ...number('Width', model.width), ...number('Heads', model.heads), ...number('Key/value heads', model.kvHeads), ...number('Experts', model.experts),
    ...number('Vocabulary', model.vocabulary), ...number('Context', model.context), ...(model.fileType === '' ? [] : [['Weights', model.fileType] as const]),
    ...(model.tokenizer === '' ? [] : [['Tokenizer', model.tokenizer] as const]), ['Chat template', model.hasChatTemplate ? 'yes' : 'no']]));
}

function sizesCard(archive: Archive): Child {
  if (archive.sizes.length === 0) return null;
  const now = archive.tensors.reduce((sum, { bytes }) => sum + bytes, 0);
  const most = Math.max(now, ...archive.sizes.map(({ bytes }) => bytes));
  const row = (name: string, bytes: number): HTMLElement => {
    const bar = make('span', { attributes: { class: 'size-bar', 'aria-hidden': 'true' } });
    bar.style.width = `${most > 0 ? (100 * bytes) / most : 0}%`;
    return make('tr', {}, make('th', { attributes: { scope: 'row' } }, name), make('td', { attributes: { class: 'number' } }, bytesText(bytes)), make('td', { attributes: { class: 'size-cell' } }, bar));
  };
  return card('Memory for the weights', make('table', { attributes: { class: 'sizes' } },
    make('thead', { attributes: { class: 'unseen' } }, make('tr', {}, ...['Type', 'Memory', 'Share'].map((text) => make('th', { attributes: { scope: 'col' } }, text)))),
    make('tbody', {}, row('as stored', now), ...archive.sizes.map(({ dtype, bytes }) => row(dtype, bytes)))));
}

// Keys and values grow with the text: a slider says by how much.
function contextCard({ model }: Archive): Child {
  const perToken = model?.contextBytesPerToken;
  if (model === null || perToken === undefined || perToken === 0) return null;
  const most = model.context ?? 131072;
  const slider = make('input', { attributes: { type: 'range', min: '0', max: '100', value: '100' } });
  const said = make('output', {});
  const draw = (): void => {
    const tokens = Math.max(1, Math.round(most ** (Number(slider.value) / 100)));
    said.textContent = `${plural(tokens, 'token')}: ${bytesText(tokens * perToken)} in f32, ${bytesText((tokens * perToken) / 2)} in f16`;
    slider.setAttribute('aria-valuetext', said.textContent);
  };
  slider.addEventListener('input', draw);
  draw();
  return card('Context', field('Tokens of context', slider), make('p', {}, said), make('p', { attributes: { class: 'hint' } }, `${bytesText(perToken)} for each token, in all layers.`));
}
