// Light or dark: as the system says, or as the user chose.

import { byId, icon } from './element.ts';

const kThemes = ['system', 'light', 'dark'] as const;
type Theme = (typeof kThemes)[number];
const kKey = 'lens-theme';

// Storage may be refused, as in private windows: the choice then lasts as long as the page.
function recall(): Theme {
  try {
    return kThemes.find((name) => name === localStorage.getItem(kKey)) ?? 'system';
  } catch {
    return 'system';
  }
}

function remember(theme: Theme): void {
  try {
    localStorage.setItem(kKey, theme);
  } catch {
    return;
  }
}

function apply(theme: Theme): void {
  if (theme === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = theme;
  const button = byId('theme', HTMLButtonElement);
  button.replaceChildren(icon(theme === 'system' ? 'system' : theme === 'light' ? 'sun' : 'moon'));
  button.setAttribute('aria-label', `Theme: ${theme}`);
  button.title = `Theme: ${theme}`;
}

export function startTheme(changed: () => void): void {
  let theme = recall();
  apply(theme);
  byId('theme', HTMLButtonElement).addEventListener('click', () => {
    theme = kThemes[(kThemes.indexOf(theme) + 1) % kThemes.length]!;
    remember(theme);
    apply(theme);
    changed();
  });
}
