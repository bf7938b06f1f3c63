// The metadata of a file: a tree, and a search through all of it.

import type { Archive } from '../engine.ts';
import { countLeaves, metadataTree, searchLeaves, type Node } from '../metadata.ts';
import { plural } from '../text.ts';
import { box, field, make } from './element.ts';
import { treeOf, type Branch } from './tree.ts';

export function metadataView(archive: Archive): HTMLElement {
  const nodes = metadataTree(archive);
  if (nodes.length === 0) return make('p', { attributes: { class: 'empty' } }, 'This file has no metadata.');
  const search = make('input', { attributes: { type: 'search', spellcheck: 'false' } });
  const found = make('p', { attributes: { class: 'hint', role: 'status' } });
  const place = box('metadata-tree');
  const draw = (): void => {
    const words = search.value.trim();
    const leaves = words === '' ? null : searchLeaves(nodes, words);
    found.textContent = leaves === null ? '' : leaves.length === 0 ? 'Nothing found' : `${plural(leaves.length, 'entry', 'entries')} found`;
    place.replaceChildren(treeOf(leaves === null ? nodes.map(branchOf) : leaves.map(({ path, value }) => ({ label: path, detail: value, children: null }))));
    if (leaves === null) for (const node of [...place.querySelectorAll('details')].slice(0, 4)) node.open = true;
  };
  search.addEventListener('input', draw);
  draw();
  return box('metadata-view', box('toolbar', field('Search keys and values', search, found)), place);
}

function branchOf(node: Node): Branch {
  return node.leaf !== null ? { label: node.label, detail: node.leaf.value, children: null }
    : { label: node.label, detail: plural(countLeaves(node), 'entry', 'entries'), children: () => node.children.map(branchOf) };
}
