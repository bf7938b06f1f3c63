// Where a message is written: text, files, send and stop.

import { readAttachments } from '../attachments.ts';
import type { Attachment } from '../conversation.ts';
import { recall, remember, storageOf } from '../store.ts';
import { byId, icon, iconButton, make } from './element.ts';
import type { Notices } from './notices.ts';

export interface ComposerEvents {
  send: (text: string, attachments: Attachment[]) => boolean; // whether it was taken
  stop: () => void;
}

export class Composer {
  private readonly field = byId('draft', HTMLTextAreaElement);
  private readonly send = byId('send', HTMLButtonElement);
  private readonly stop = byId('stop', HTMLButtonElement);
  private readonly list = byId('attached', HTMLUListElement);
  private readonly events: ComposerEvents;
  private readonly notices: Notices;
  private readonly session = storageOf('sessionStorage');
  private files: Attachment[] = [];
  private isRunning = false;

  constructor(events: ComposerEvents, notices: Notices) {
    this.events = events;
    this.notices = notices;
    this.field.value = recall(this.session, 'draft');
    this.listen();
    this.drawFiles();
    this.grow();
  }

  get draft(): { text: string; attachments: Attachment[] } {
    return { text: this.field.value, attachments: this.files };
  }

  focus(): void {
    this.field.focus();
  }

  show(isRunning: boolean, context: string): void {
    const hadFocus = document.activeElement === this.stop || document.activeElement === this.send;
    this.isRunning = isRunning;
    this.stop.hidden = !isRunning;
    this.send.hidden = isRunning;
    byId('context', HTMLElement).textContent = context;
    if (hadFocus) (isRunning ? this.stop : this.field).focus();
  }

  private listen(): void {
    this.field.addEventListener('input', () => {
      remember(this.session, 'draft', this.field.value);
      this.grow();
    });
    this.field.addEventListener('keydown', (event) => {
      // Enter also ends a word of an input method; that Enter sends nothing.
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing || event.keyCode === 229) return;
      event.preventDefault();
      this.submit();
    });
    this.send.addEventListener('click', () => this.submit());
    this.stop.addEventListener('click', () => this.events.stop());
    this.listenForFiles();
  }

  private listenForFiles(): void {
    const picker = byId('files', HTMLInputElement);
    const attach = byId('attach', HTMLButtonElement);
    attach.append(icon('attach'));
    attach.addEventListener('click', () => picker.click());
    picker.addEventListener('change', () => {
      void this.add([...(picker.files ?? [])]);
      picker.value = '';
    });
    const composer = byId('composer', HTMLElement);
    composer.addEventListener('dragover', (event) => event.preventDefault());
    composer.addEventListener('drop', (event) => {
      const files = [...(event.dataTransfer?.files ?? [])];
      if (files.length === 0) return;
      event.preventDefault();
      void this.add(files);
    });
    this.field.addEventListener('paste', (event) => {
      const files = [...(event.clipboardData?.files ?? [])];
      if (files.length === 0) return;
      event.preventDefault();
      void this.add(files);
    });
  }

  private async add(files: File[]): Promise<void> {
    const { added, problems } = await readAttachments(files, this.files);
    this.files = [...this.files, ...added];
    for (const problem of problems) this.notices.show(problem);
    if (added.length > 0) this.notices.say(`Attached ${added.map((file) => file.name).join(', ')}.`);
    this.drawFiles();
    this.field.focus();
  }

  private drawFiles(): void {
    this.list.hidden = this.files.length === 0;
    this.list.replaceChildren(...this.files.map((file, index) => make('li', {}, `${file.name} (${file.text.length.toLocaleString('en')} characters)`,
      iconButton('close', `Remove ${file.name}`, () => {
        this.files = this.files.filter((_, other) => other !== index);
        this.drawFiles();
        this.field.focus();
      }))));
  }

  private submit(): void {
    if (this.isRunning || (this.field.value.trim() === '' && this.files.length === 0)) return;
    if (!this.events.send(this.field.value, this.files)) return;
    this.field.value = '';
    this.files = [];
    remember(this.session, 'draft', '');
    this.drawFiles();
    this.grow();
  }

  private grow(): void {
    this.field.style.height = 'auto';
    this.field.style.height = `${this.field.scrollHeight + 2}px`;
  }
}
