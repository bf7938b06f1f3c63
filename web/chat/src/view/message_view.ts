// One message: its text, what it cost, and what can be done with it.

import type { Conversation, Message } from '../conversation.ts';
import { siblingsOf } from '../conversation.ts';
import { MarkdownView, renderCode } from '../markdown/render.ts';
import { statsText } from '../stats.ts';
import { iconButton, make } from './element.ts';

export interface MessageEvents {
  copy: (message: Message) => void;
  saveEdit: (message: Message, content: string) => boolean; // whether the editor may close
  regenerate: (message: Message) => void;
  retry: (message: Message) => void;
  sibling: (message: Message, step: number) => void;
  copyRequest: (message: Message, program: 'curl' | 'python') => void;
}

// Under a schema the answer is JSON: while it comes in as it is, then in lines.
function jsonText(message: Message): string {
  if (message.state !== 'complete') return message.content;
  try {
    return JSON.stringify(JSON.parse(message.content), null, 2);
  } catch {
    return message.content;
  }
}

export class MessageView {
  readonly element: HTMLElement;
  private message: Message;
  private readonly events: MessageEvents;
  private readonly attachments = make('div', { attributes: { class: 'files' } });
  private readonly reasoning = make('details', { attributes: { class: 'reasoning' } }, make('summary', {}, 'Reasoning'));
  private readonly reasoningText = make('div', { attributes: { class: 'reasoning-text' } });
  private readonly body = make('div', { attributes: { class: 'body' } });
  private readonly markdown = new MarkdownView(document, this.body);
  private readonly note = make('div', { attributes: { class: 'note' } });
  private readonly stats = make('p', { attributes: { class: 'stats' } });
  private readonly branches = make('span', { attributes: { class: 'branches' } });
  private readonly actions = make('div', { attributes: { class: 'actions', role: 'group', 'aria-label': 'Actions' } });
  private editor: HTMLElement | null = null;
  private drawn = ''; // what the actions and the note were made for

  constructor(message: Message, events: MessageEvents) {
    this.message = message;
    this.events = events;
    this.reasoning.append(this.reasoningText);
    const name = message.role === 'user' ? 'You' : 'Answer';
    this.element = make('article', { attributes: { class: `message ${message.role}`, 'aria-label': name } },
      make('h2', { attributes: { class: 'unseen' } }, name),
      this.attachments, this.reasoning, this.body, this.note, this.stats, this.actions);
    this.drawAttachments();
  }

  update(message: Message, conversation: Conversation): void {
    this.message = message;
    this.drawBody();
    this.reasoning.hidden = message.reasoning === '';
    this.reasoningText.textContent = message.reasoning;
    this.element.classList.toggle('streaming', message.state === 'streaming');
    this.element.setAttribute('aria-busy', String(message.state === 'streaming'));
    this.stats.textContent = statsText(message);
    this.stats.hidden = this.stats.textContent === '';
    const siblings = siblingsOf(conversation, message);
    const place = siblings.findIndex((other) => other.id === message.id);
    const needed = `${message.state} ${message.error} ${message.finish} ${place} ${siblings.length}`;
    if (needed === this.drawn) return;
    this.drawn = needed;
    this.drawNote();
    this.drawBranches(place, siblings.length);
    this.drawActions();
  }

  // After a switch between siblings the arrow that was used stays in reach.
  focusBranch(step: number): void {
    const [before, after] = this.branches.querySelectorAll('button');
    const wanted = step < 0 ? before : after;
    (wanted?.disabled === true ? (step < 0 ? after : before) : wanted)?.focus();
  }

  edit(): void {
    if (this.editor !== null || this.message.state === 'streaming') return;
    const field = make('textarea', { attributes: { 'aria-label': 'Edit the message', rows: '4' } });
    field.value = this.message.content;
    const save = (): void => {
      if (this.events.saveEdit(this.message, field.value)) this.endEdit();
    };
    const saveLabel = this.message.role === 'user' ? 'Send as a new branch' : 'Save as a new branch';
    this.editor = make('div', { attributes: { class: 'editor' } }, field, make('div', { attributes: { class: 'buttons' } },
      make('button', { attributes: { type: 'button' }, click: () => this.endEdit() }, 'Cancel'),
      make('button', { attributes: { type: 'button', class: 'primary' }, click: save }, saveLabel)));
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Escape') {
        event.stopPropagation();
        this.endEdit();
      } else if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) {
        save();
      }
    });
    this.body.hidden = true;
    this.actions.hidden = true;
    this.body.after(this.editor);
    field.focus();
  }

  private endEdit(): void {
    this.editor?.remove();
    this.editor = null;
    this.body.hidden = false;
    this.actions.hidden = false;
    this.actions.querySelector<HTMLElement>('[data-action=edit]')?.focus();
  }

  private drawAttachments(): void {
    this.attachments.replaceChildren(...this.message.attachments.map((file) => make('details', {},
      make('summary', {}, file.name), make('pre', { attributes: { tabindex: '0' } }, file.text))));
    this.attachments.hidden = this.message.attachments.length === 0;
  }

  private drawBody(): void {
    if (this.message.isJson && this.message.content !== '') this.body.replaceChildren(renderCode(document, jsonText(this.message), 'json'));
    else this.markdown.show(this.message.content);
  }

  private drawNote(): void {
    this.note.replaceChildren();
    const { state, error, finish } = this.message;
    const text = state === 'failed' ? error : state === 'stopped' ? 'Stopped.' : finish === 'length' ? 'The answer reached the token limit.' : '';
    this.note.hidden = text === '';
    this.note.classList.toggle('failed', state === 'failed');
    if (text === '') return;
    this.note.append(make('span', {}, text));
    if (state !== 'failed') return;
    this.note.append(make('button', { attributes: { type: 'button' }, click: () => this.events.retry(this.message) }, 'Retry'));
  }

  private drawBranches(place: number, count: number): void {
    this.branches.replaceChildren();
    if (count < 2) return;
    const before = iconButton('before', 'Earlier version', () => this.events.sibling(this.message, -1));
    const after = iconButton('after', 'Later version', () => this.events.sibling(this.message, 1));
    before.disabled = place === 0;
    after.disabled = place === count - 1;
    this.branches.append(before, make('span', { attributes: { class: 'place' } }, `${place + 1} / ${count}`), after);
  }

  private drawActions(): void {
    const isAnswer = this.message.role === 'assistant';
    const edit = iconButton('edit', 'Edit', () => this.edit());
    edit.dataset['action'] = 'edit';
    const always = [iconButton('copy', 'Copy', () => this.events.copy(this.message)), edit];
    const forAnswers = isAnswer ? [
      iconButton('again', 'Regenerate', () => this.events.regenerate(this.message)),
      iconButton('terminal', 'Copy request as curl', () => this.events.copyRequest(this.message, 'curl')),
      iconButton('code', 'Copy request as Python', () => this.events.copyRequest(this.message, 'python')),
    ] : [];
    const buttons = this.message.state === 'streaming' ? [] : [...always, ...forAnswers];
    this.actions.replaceChildren(this.branches, ...buttons);
  }
}
