// Light or dark: as the system says, or as the user chose.

import { recall, remember, storageOf } from '../store.ts';
import { byId, icon } from './element.ts';

const kThemes = ['system', 'light', 'dark'] as const;
type Theme = (typeof kThemes)[number];

function apply(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme;
  const button = byId('theme', HTMLButtonElement);
  button.replaceChildren(icon(theme === 'system' ? 'system' : theme === 'light' ? 'sun' : 'moon'));
  button.setAttribute('aria-label', `Theme: ${theme}`);
  button.title = `Theme: ${theme}`;
}

export function startTheme(): void {
  const storage = storageOf('localStorage');
  let theme: Theme = kThemes.find((name) => name === recall(storage, 'theme')) ?? 'system';
  apply(theme);
  byId('theme', HTMLButtonElement).addEventListener('click', () => {
    theme = kThemes[(kThemes.indexOf(theme) + 1) % kThemes.length]!;
    remember(storage, 'theme', theme);
    apply(theme);
  });
}
