// Keys. Alt with a letter is left alone by the browsers' own shortcuts on Linux, macOS and Windows; the place of the key
// counts (event.code), because macOS makes other characters of Alt with a letter.

export interface Shortcut {
  keys: string;
  does: string;
  code: string; // empty: handled where the focus is, and only listed here
  run: () => void;
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest('input, textarea, select') !== null;
}

export function listen(shortcuts: readonly Shortcut[], escape: () => void, help: () => void): void {
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.isComposing || document.querySelector('dialog[open]') !== null) return;
    if (event.key === 'Escape') {
      escape();
    } else if (event.key === '?' && !isTyping(event.target)) {
      help();
    } else if (event.altKey && !event.ctrlKey && !event.metaKey) {
      const shortcut = shortcuts.find(({ code }) => code !== '' && code === event.code);
      if (shortcut === undefined) return;
      event.preventDefault();
      shortcut.run();
    }
  });
}
