// The messages that are shown. Views stay as long as their message does, so that a selection and an open editor stay too.

import { type Conversation, type Message, shownPath } from '../conversation.ts';
import { copyText } from './clipboard.ts';
import { byId, make } from './element.ts';
import { type MessageEvents, MessageView } from './message_view.ts';
import type { Notices } from './notices.ts';

const kNearEndPixels = 60;

export class Thread {
  private readonly element = byId('thread', HTMLElement);
  private readonly events: MessageEvents;
  private views = new Map<string, MessageView>();
  private shown = '';

  constructor(events: MessageEvents, notices: Notices) {
    this.events = events;
    this.element.addEventListener('click', (event) => {
      const button = event.target instanceof Element ? event.target.closest('button.copy-code') : null;
      const code = button?.closest('.code-block')?.querySelector('pre')?.textContent;
      if (button !== null && code != null) void this.copyCode(button, code, notices);
    });
  }

  show(conversation: Conversation): void {
    const isOther = this.shown !== conversation.id;
    const isAtEnd = isOther || this.isAtEnd();
    const path = shownPath(conversation);
    const views = new Map<string, MessageView>();
    for (const message of path) {
      const view = this.views.get(message.id) ?? new MessageView(message, this.events);
      view.update(message, conversation);
      views.set(message.id, view);
    }
    this.views = views;
    this.shown = conversation.id;
    const wanted = path.length > 0 ? [...views.values()].map((view) => view.element) : [this.empty()];
    this.place(wanted);
    if (isAtEnd) this.toEnd();
  }

  // While an answer comes in only its own view changes.
  update(message: Message, conversation: Conversation): void {
    const isAtEnd = this.isAtEnd();
    this.views.get(message.id)?.update(message, conversation);
    if (isAtEnd) this.toEnd();
  }

  edit(message: Message): void {
    this.views.get(message.id)?.edit();
  }

  focusBranch(message: Message, step: number): void {
    this.views.get(message.id)?.focusBranch(step);
  }

  toEnd(): void {
    this.element.scrollTop = this.element.scrollHeight;
  }

  // Moves nothing that is in its place already: an element that is taken out loses its focus.
  private place(wanted: HTMLElement[]): void {
    wanted.forEach((element, index) => {
      if (this.element.children[index] !== element) this.element.insertBefore(element, this.element.children[index] ?? null);
    });
    while (this.element.childElementCount > wanted.length) this.element.lastElementChild?.remove();
  }

  private empty(): HTMLElement {
    return make('div', { attributes: { class: 'empty' } }, make('p', {}, 'How can I help?'),
      make('p', { attributes: { class: 'hint' } }, 'Your messages go to this server only. Conversations are kept in this browser.'));
  }

  private isAtEnd(): boolean {
    return this.element.scrollHeight - this.element.scrollTop - this.element.clientHeight < kNearEndPixels;
  }

  private async copyCode(button: Element, code: string, notices: Notices): Promise<void> {
    const isCopied = await copyText(code);
    button.textContent = isCopied ? 'Copied' : 'Failed';
    notices.say(isCopied ? 'Code copied.' : 'The browser refused to copy.');
    window.setTimeout(() => { button.textContent = 'Copy'; }, 1500);
  }
}
