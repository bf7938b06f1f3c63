// Names with their values.

import { make, type Child } from './element.ts';

export function facts(entries: readonly (readonly [name: string, value: Child])[]): HTMLElement {
  return make('dl', { attributes: { class: 'facts' } }, ...entries.flatMap(([name, value]) => [make('dt', {}, name), make('dd', {}, value)]));
}
