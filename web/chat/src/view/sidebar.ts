// The list of conversations: open, rename, delete.

import type { Conversation } from '../conversation.ts';
import { byId, iconButton, make } from './element.ts';

export interface SidebarEvents {
  open: (id: string) => void;
  rename: (id: string, title: string) => void;
  remove: (id: string) => void;
}

const kMostTitleChars = 120;

export class Sidebar {
  private readonly list = byId('conversations', HTMLUListElement);
  private readonly events: SidebarEvents;
  private renaming = ''; // a list that is drawn anew must not take the field away

  constructor(events: SidebarEvents) {
    this.events = events;
  }

  show(conversations: readonly Conversation[], current: string, running: ReadonlySet<string>): void {
    if (this.renaming !== '') return;
    byId('no-conversations', HTMLElement).hidden = conversations.length > 0;
    const focused = document.activeElement?.closest<HTMLElement>('#conversations li')?.dataset['id'];
    this.list.replaceChildren(...conversations.map((conversation) => this.row(conversation, current, running.has(conversation.id))));
    if (focused !== undefined) this.rowOf(focused)?.querySelector('button')?.focus();
  }

  private rowOf(id: string): HTMLElement | undefined {
    return [...this.list.children].find((row): row is HTMLElement => row instanceof HTMLElement && row.dataset['id'] === id);
  }

  private row(conversation: Conversation, current: string, isRunning: boolean): HTMLElement {
    const isCurrent = conversation.id === current;
    const open = make('button', {
      attributes: { type: 'button', class: 'open', title: conversation.title, ...(isCurrent ? { 'aria-current': 'true' } : {}) },
      click: () => this.events.open(conversation.id),
    }, isRunning ? make('span', { attributes: { class: 'dot', role: 'img', 'aria-label': 'answering' } }) : null, conversation.title);
    const row = make('li', {}, open,
      iconButton('edit', `Rename “${conversation.title}”`, () => this.rename(row, conversation)),
      iconButton('remove', `Delete “${conversation.title}”`, () => this.events.remove(conversation.id)));
    row.dataset['id'] = conversation.id;
    return row;
  }

  private rename(row: HTMLElement, conversation: Conversation): void {
    const field = make('input', { attributes: { type: 'text', maxlength: String(kMostTitleChars), 'aria-label': 'Title of the conversation' } });
    field.value = conversation.title;
    this.renaming = conversation.id;
    row.replaceChildren(field);
    field.focus();
    field.select();
    const end = (isKept: boolean): void => {
      if (this.renaming !== conversation.id) return;
      this.renaming = '';
      const title = field.value.trim();
      this.events.rename(conversation.id, isKept && title !== '' ? title : conversation.title);
      this.rowOf(conversation.id)?.querySelector('button')?.focus();
    };
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && !event.isComposing) end(true);
      if (event.key === 'Escape') {
        event.stopPropagation();
        end(false);
      }
    });
    field.addEventListener('blur', () => end(true));
  }
}
