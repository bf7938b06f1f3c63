// A tree of nested values whose branches are filled when they are opened: a million entries cost nothing until then.

import { box, make, type Child } from './element.ts';

export interface Branch {
  label: string;
  detail: Child; // to the right of the label; for leaves, the value
  children: (() => Branch[]) | null;
}

// As many entries of one branch as are shown at a time.
const kAtATime = 200;

export function treeOf(branches: readonly Branch[]): HTMLElement {
  const list = make('ul', { attributes: { class: 'tree' } });
  fill(list, branches, 0);
  return list;
}

function fill(list: HTMLElement, branches: readonly Branch[], begin: number): void {
  const end = Math.min(branches.length, begin + kAtATime);
  for (const branch of branches.slice(begin, end)) list.append(make('li', {}, nodeOf(branch)));
  if (end === branches.length) return;
  const more = make('button', { attributes: { type: 'button' }, click: () => {
    item.remove();
    fill(list, branches, end);
  } }, `Show ${Math.min(kAtATime, branches.length - end)} of ${branches.length - end} more`);
  const item = make('li', {}, more);
  list.append(item);
}

function nodeOf(branch: Branch): HTMLElement {
  const { label, detail, children } = branch;
  if (children === null) {
    return box('leaf', make('span', { attributes: { class: 'key' } }, label), make('span', { attributes: { class: 'leaf-value' } }, detail ?? ''));
  }
  const node = make('details', {}, make('summary', {}, make('span', { attributes: { class: 'key' } }, label),
    make('span', { attributes: { class: 'soft' } }, detail ?? '')));
  node.addEventListener('toggle', () => {
    if (node.open && node.childElementCount === 1) node.append(treeOf(children()));
  });
  return node;
}
