// What went wrong and what would help, as text: messages hold names from files, which may be anything.

import { headline, type Failure } from '../failure.ts';
import { make } from './element.ts';

export function failureCard(failure: Failure): HTMLElement {
  return make('div', { attributes: { class: 'failure', 'data-code': failure.code } }, make('h3', {}, headline(failure)), make('p', {}, failure.message),
    failure.remedies.length === 0 ? null : make('ul', {}, ...failure.remedies.map((text) => make('li', {}, text))));
}
