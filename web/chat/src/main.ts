// Starts the page and connects its buttons and keys.

import { App } from './app.ts';
import { type Shortcut, listen } from './shortcuts.ts';
import { kMaxImportBytes } from './transfer.ts';
import { showShortcuts } from './view/dialogs.ts';
import { Drawers } from './view/drawers.ts';
import { byId } from './view/element.ts';
import { startTheme } from './view/theme.ts';

function onClick(id: string, run: () => void): void {
  byId(id, HTMLButtonElement).addEventListener('click', run);
}

function connectImport(app: App): void {
  const picker = byId('import-file', HTMLInputElement);
  onClick('import', () => picker.click());
  picker.addEventListener('change', () => {
    const file = picker.files?.[0];
    picker.value = '';
    if (file === undefined) return;
    if (file.size > kMaxImportBytes) app.problem(`${file.name} is ${file.size} bytes; the limit is ${kMaxImportBytes}.`);
    else void file.text().then((text) => app.import(text), () => app.problem(`${file.name} could not be read.`));
  });
}

function connectKeys(app: App, drawers: Drawers): void {
  const nothing = (): void => undefined;
  const uncovered = (run: () => void): void => {
    drawers.closeOverlays();
    run();
  };
  const shortcuts: Shortcut[] = [
    { keys: 'Enter', does: 'Send the message', code: '', run: nothing },
    { keys: 'Shift+Enter', does: 'Start a new line', code: '', run: nothing },
    { keys: 'Esc', does: 'Stop the answer, or close an open panel', code: '', run: nothing },
    { keys: 'Alt+N', does: 'New conversation', code: 'KeyN', run: () => app.begin() },
    { keys: 'Alt+R', does: 'Regenerate the last answer', code: 'KeyR', run: () => app.regenerateLast() },
    { keys: 'Alt+↑', does: 'Edit the last question', code: 'ArrowUp', run: () => uncovered(() => app.editLast()) },
    { keys: 'Ctrl+Enter', does: 'Save an edited message', code: '', run: nothing },
    { keys: 'Alt+C', does: 'Show or hide the conversations', code: 'KeyC', run: () => drawers.toggleSidebar() },
    { keys: 'Alt+S', does: 'Show or hide the settings', code: 'KeyS', run: () => drawers.togglePanel() },
    { keys: 'Alt+M', does: 'Go to the message field', code: 'KeyM', run: () => uncovered(() => byId('draft', HTMLTextAreaElement).focus()) },
    { keys: '?', does: 'Show this list (outside text fields)', code: '', run: nothing },
  ];
  const help = (): void => showShortcuts(shortcuts);
  listen(shortcuts, () => app.closeOrStop(), help);
  onClick('show-shortcuts', help);
}

function start(): void {
  startTheme();
  const drawers = new Drawers();
  const app = new App(drawers);
  onClick('new-conversation', () => app.begin());
  onClick('copy-curl', () => app.copyDraft('curl'));
  onClick('copy-python', () => app.copyDraft('python'));
  onClick('export', () => app.exportAll());
  onClick('delete-all', () => void app.removeAll());
  onClick('change-key', () => void app.changeKey('Needed only if the server was started with API keys.').then((isGiven) => {
    if (isGiven) void app.askServer();
  }));
  connectImport(app);
  connectKeys(app, drawers);
  void app.start();
}

start();
