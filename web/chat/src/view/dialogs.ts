// Dialogs: a question, the API key, the list of shortcuts. The browser's <dialog> keeps the focus inside, closes on Esc and
// gives the focus back.

import { byId, make } from './element.ts';

export function confirmDelete(text: string): Promise<boolean> {
  const dialog = byId('confirm', HTMLDialogElement);
  byId('confirm-text', HTMLElement).textContent = text;
  return new Promise((resolve) => {
    let answer = false;
    byId('confirm-yes', HTMLButtonElement).onclick = () => {
      answer = true;
      dialog.close();
    };
    byId('confirm-no', HTMLButtonElement).onclick = () => dialog.close();
    dialog.onclose = () => resolve(answer);
    dialog.showModal();
  });
}

// The key that the user gives; null where none was given. An empty one takes the old key away.
export function askKey(reason: string, current: string): Promise<string | null> {
  const dialog = byId('key-dialog', HTMLDialogElement);
  const field = byId('key', HTMLInputElement);
  const problem = byId('key-error', HTMLElement);
  if (dialog.open) return Promise.resolve(null);
  byId('key-reason', HTMLElement).textContent = reason;
  problem.textContent = '';
  field.value = current;
  return new Promise((resolve) => {
    let answer: string | null = null;
    const save = (): void => {
      const key = field.value.trim();
      if (/[^\x21-\x7e]/.test(key)) {
        problem.textContent = 'A key contains only letters, digits and symbols, no spaces.';
        return;
      }
      answer = key;
      dialog.close();
    };
    byId('key-save', HTMLButtonElement).onclick = save;
    byId('key-cancel', HTMLButtonElement).onclick = () => dialog.close();
    field.onkeydown = (event) => {
      if (event.key === 'Enter') save();
    };
    dialog.onclose = () => {
      field.value = '';
      resolve(answer);
    };
    dialog.showModal();
    field.focus();
  });
}

export function showShortcuts(shortcuts: readonly { keys: string; does: string }[]): void {
  const dialog = byId('shortcuts', HTMLDialogElement);
  if (dialog.open) return;
  byId('shortcut-list', HTMLElement).replaceChildren(...shortcuts.flatMap(({ keys, does }) => [
    make('dt', {}, make('kbd', {}, keys)), make('dd', {}, does),
  ]));
  byId('shortcuts-close', HTMLButtonElement).onclick = () => dialog.close();
  dialog.showModal();
}
