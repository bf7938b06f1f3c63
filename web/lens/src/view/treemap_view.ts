// The tensors of a file as areas: groups by layer, colours by element type. The same as a tree, for those who see no picture.

import { typeColour } from '../colours.ts';
import type { TensorInfo } from '../engine.ts';
import { groupBy, placeOf } from '../layers.ts';
import { bytesText, plural, shapeText } from '../text.ts';
import { squarify, type Box } from '../treemap.ts';
import { box, button, make } from './element.ts';
import { treeOf, type Branch } from './tree.ts';

const kHeight = 320;
const kHead = 16; // of a group, where its name fits
const kMostTiles = 6000; // what is smaller than all of these is left out of the picture, and said

interface Tile extends Box {
  at: number;
}

export class TreemapView {
  readonly element: HTMLElement;
  private readonly tensors: readonly TensorInfo[];
  private readonly open: (at: number) => void;
  private readonly canvas = make('canvas', { attributes: { class: 'treemap', role: 'img' } });
  private readonly note = make('p', { attributes: { class: 'hint' } });
  private readonly hover = make('p', { attributes: { class: 'hover', 'aria-hidden': 'true' } }, 'Point at an area to see its tensor; click to open it.');
  private tiles: Tile[] = [];
  private readonly groups: { name: string; members: number[]; bytes: number }[];

  constructor(tensors: readonly TensorInfo[], open: (at: number) => void) {
    this.tensors = tensors;
    this.open = open;
    const order = tensors.map((_, at) => at).sort((a, b) => tensors[b]!.bytes - tensors[a]!.bytes);
    const drawn = order.slice(0, kMostTiles);
    if (drawn.length < order.length) this.note.textContent = `The picture shows the ${kMostTiles} largest tensors.`;
    this.groups = [...groupBy(drawn, (at) => placeOf(tensors[at]!.name).group)]
      .map(([name, members]) => ({ name, members, bytes: members.reduce((sum, at) => sum + tensors[at]!.bytes, 0) }))
      .sort((a, b) => b.bytes - a.bytes);
    this.canvas.setAttribute('aria-label', `Treemap of ${plural(tensors.length, 'tensor')} by size; the list below has the same`);
    this.element = box('treemap-view', this.canvas, this.hover, this.legend(), this.note, this.list());
    this.canvas.addEventListener('pointermove', (event) => this.point(event));
    this.canvas.addEventListener('click', (event) => {
      const tile = this.tileAt(event);
      if (tile !== null) this.open(tile.at);
    });
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  draw(): void {
    const width = this.canvas.clientWidth;
    if (width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(kHeight * ratio);
    const context = this.canvas.getContext('2d')!;
    context.scale(ratio, ratio);
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    this.tiles = [];
    const places = squarify(this.groups.map(({ bytes }) => bytes), { x: 0, y: 0, width, height: kHeight });
    const ink = getComputedStyle(this.canvas).color;
    this.groups.forEach((group, at) => this.drawGroup(context, group, places[at]!, ink));
  }

  private drawGroup(context: CanvasRenderingContext2D, group: { name: string; members: number[] }, place: Box, ink: string): void {
    const hasHead = group.members.length > 1 && place.width > 50 && place.height > 40;
    if (hasHead) {
      context.fillStyle = ink;
      context.fillText(clipped(context, group.name, place.width - 6), place.x + 3, place.y + kHead / 2);
    }
    const head = hasHead ? kHead : 0;
    const inner = { x: place.x + 1, y: place.y + head, width: Math.max(0, place.width - 2), height: Math.max(0, place.height - head - 1) };
    const boxes = squarify(group.members.map((at) => this.tensors[at]!.bytes), inner);
    boxes.forEach((one, slot) => {
      const at = group.members[slot]!;
      const tensor = this.tensors[at]!;
      this.tiles.push({ ...one, at });
      context.fillStyle = typeColour(tensor.dtype);
      const gap = one.width > 4 && one.height > 4 ? 1 : 0;
      context.fillRect(one.x, one.y, one.width - gap, one.height - gap);
      if (one.width < 44 || one.height < 15) return;
      context.fillStyle = '#ffffff';
      context.fillText(clipped(context, hasHead ? placeOf(tensor.name).rest : tensor.name, one.width - 8), one.x + 4, one.y + Math.min(10, one.height / 2));
    });
  }

  private legend(): HTMLElement {
    const types = [...groupBy(this.tensors, ({ dtype }) => dtype)]
      .map(([dtype, members]) => ({ dtype, count: members.length, bytes: members.reduce((sum, { bytes }) => sum + bytes, 0) }))
      .sort((a, b) => b.bytes - a.bytes);
    return make('ul', { attributes: { class: 'legend', 'aria-label': 'Element types' } }, ...types.map(({ dtype, count, bytes }) => {
      const swatch = make('span', { attributes: { class: 'swatch', 'aria-hidden': 'true' } });
      swatch.style.background = typeColour(dtype);
      return make('li', {}, swatch, `${dtype}: ${plural(count, 'tensor')}, ${bytesText(bytes)}`);
    }));
  }

  private list(): HTMLElement {
    const groups = groupBy(this.tensors.map((_, at) => at), (at) => placeOf(this.tensors[at]!.name).group);
    const leaf = (at: number): Branch => ({ label: '', detail: box('leaf-tensor', button(this.tensors[at]!.name, () => this.open(at), 'link'),
      make('span', { attributes: { class: 'soft' } }, `${this.tensors[at]!.dtype} · ${shapeText(this.tensors[at]!.shape)} · ${bytesText(this.tensors[at]!.bytes)}`)), children: null });
    const branches = [...groups].map(([name, members]): Branch => members.length === 1 ? leaf(members[0]!)
      : { label: name, detail: `${plural(members.length, 'tensor')} · ${bytesText(members.reduce((sum, at) => sum + this.tensors[at]!.bytes, 0))}`, children: () => members.map(leaf) });
    return make('section', { attributes: { class: 'tensor-tree', 'aria-label': 'Tensors by layer' } }, make('h3', {}, 'By layer'), treeOf(branches));
  }

  private tileAt(event: MouseEvent): Tile | null {
    const { offsetX: x, offsetY: y } = event;
    return this.tiles.find((tile) => x >= tile.x && x < tile.x + tile.width && y >= tile.y && y < tile.y + tile.height) ?? null;
  }

  private point(event: PointerEvent): void {
    const tile = this.tileAt(event);
    this.canvas.style.cursor = tile === null ? 'default' : 'pointer';
    if (tile === null) return;
    const { name, dtype, shape, bytes } = this.tensors[tile.at]!;
    this.hover.textContent = `${name} · ${dtype} · ${shapeText(shape)} · ${bytesText(bytes)}`;
  }
}

function clipped(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low === 0 ? '' : `${text.slice(0, low)}…`;
}
