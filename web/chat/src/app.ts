// The page: what the user does, and what follows from it.

import { type ApiError, Client, type ServerFacts } from './client.ts';
import {
  type Attachment, type Conversation, type Message, addMessage, findMessage, makeMessage, pathTo, removeMessage, showSibling, shownPath,
} from './conversation.ts';
import { Conversations } from './conversations.ts';
import { Generation } from './generation.ts';
import { asCurl, asPython, chatBody, contentOf, streamed } from './request.ts';
import { contextText } from './stats.ts';
import { recall, remember, storageOf } from './store.ts';
import { copyText } from './view/clipboard.ts';
import { Composer } from './view/composer.ts';
import { askKey, confirmDelete } from './view/dialogs.ts';
import { byId, make } from './view/element.ts';
import type { Drawers } from './view/drawers.ts';
import { Notices } from './view/notices.ts';
import { Panel } from './view/panel.ts';
import { Sidebar } from './view/sidebar.ts';
import { Thread } from './view/thread.ts';

const kDrawDelayMs = 50;

export class App {
  private readonly drawers: Drawers;
  private readonly session = storageOf('sessionStorage');
  private key = recall(this.session, 'key'); // in this tab only
  private readonly client = new Client(new URL('.', document.baseURI).href, () => this.key);
  private readonly notices = new Notices();
  private readonly running = new Map<string, Generation>(); // by conversation
  private readonly conversations = new Conversations({
    problem: (message) => this.notices.show(message),
    changedElsewhere: () => void this.conversations.reload((id) => this.running.has(id)).then(() => this.draw()),
  });
  private readonly thread = new Thread({
    copy: (message) => void this.copy(contentOf(message), 'Message'),
    saveEdit: (message, content) => this.saveEdit(message, content),
    regenerate: (message) => this.regenerate(message),
    retry: (message) => this.retry(message),
    sibling: (message, step) => this.sibling(message, step),
    copyRequest: (message, program) => this.copyRequest(pathTo(this.current, message.parent), program),
  }, this.notices);
  private readonly sidebar = new Sidebar({
    open: (id) => this.open(id),
    rename: (id, title) => this.rename(id, title),
    remove: (id) => void this.remove(id),
  });
  private readonly composer = new Composer({
    send: (text, attachments) => this.send(text, attachments),
    stop: () => this.stop(),
  }, this.notices);
  private readonly panel = new Panel((change) => this.conversations.changeSettings(change));
  private readonly model = byId('model', HTMLSelectElement);
  private models: string[] = [];
  private facts: ServerFacts = { model: '', contextTokens: null };

  constructor(drawers: Drawers) {
    this.drawers = drawers;
    this.model.addEventListener('change', () => {
      this.conversations.changeSettings({ model: this.model.value });
      this.draw();
    });
    window.addEventListener('pagehide', () => this.conversations.flush());
    document.addEventListener('visibilitychange', () => this.conversations.flush());
  }

  async start(): Promise<void> {
    await this.conversations.open();
    this.draw();
    this.composer.focus();
    await this.askServer();
  }

  private get current(): Conversation {
    return this.conversations.current;
  }

  // Which models there are. A server that asks for a key is asked again with one.
  async askServer(): Promise<void> {
    try {
      this.models = await this.client.models();
      if (this.models.length === 0) this.notices.show('The server has no models.');
    } catch (error) {
      if ((error as ApiError).failure !== 'key') this.notices.show((error as Error).message);
      else if (await this.changeKey((error as Error).message)) await this.askServer();
      return;
    }
    this.facts = await this.client.facts();
    this.draw();
  }

  // Whether the user gave another key.
  async changeKey(reason: string): Promise<boolean> {
    const key = await askKey(reason, this.key);
    if (key === null) return false;
    this.key = key;
    remember(this.session, 'key', key);
    this.notices.clear();
    return true;
  }

  draw(): void {
    const conversation = this.current;
    byId('title', HTMLElement).textContent = conversation.title;
    document.title = conversation.messages.length > 0 ? `${conversation.title} – Ballast` : 'Ballast';
    this.sidebar.show(this.conversations.list(), conversation.id, new Set(this.running.keys()));
    this.thread.show(conversation);
    const isKnown = this.facts.model === '' || this.facts.model === conversation.settings.model;
    const context = contextText(shownPath(conversation), isKnown ? this.facts.contextTokens : null);
    this.composer.show(this.running.has(conversation.id), context);
    this.panel.show(conversation.settings);
    this.drawModels();
  }

  private drawModels(): void {
    const { settings } = this.current;
    if (this.models.length > 0 && !this.models.includes(settings.model)) settings.model = this.models[0]!;
    const names = this.models.length > 0 ? this.models : ['no models'];
    this.model.disabled = this.models.length === 0;
    this.model.replaceChildren(...names.map((name) => make('option', { attributes: { value: name } }, name)));
    this.model.value = this.models.length > 0 ? settings.model : 'no models';
  }

  begin(): void {
    this.conversations.begin();
    this.drawers.closeOverlays();
    this.draw();
    this.composer.focus();
  }

  private open(id: string): void {
    this.conversations.show(id);
    this.drawers.closeOverlays();
    this.draw();
  }

  private rename(id: string, title: string): void {
    const conversation = this.conversations.get(id);
    if (conversation !== undefined && conversation.title !== title) {
      conversation.title = title;
      conversation.isRenamed = true;
      this.conversations.save(conversation);
    }
    this.draw();
  }

  private async remove(id: string): Promise<void> {
    const title = this.conversations.get(id)?.title ?? '';
    if (!(await confirmDelete(`Delete the conversation “${title}”?`))) return;
    this.running.get(id)?.stop();
    this.conversations.remove([id]);
    this.draw();
    byId('new-conversation', HTMLButtonElement).focus();
  }

  async removeAll(): Promise<void> {
    const ids = this.conversations.list().map(({ id }) => id);
    if (ids.length === 0) this.notices.show('There are no conversations to delete.');
    else if (await confirmDelete(`Delete all ${ids.length} conversations? Export them first if you want to keep them.`)) {
      for (const generation of this.running.values()) generation.stop();
      this.conversations.remove(ids);
      this.draw();
    }
  }

  private send(text: string, attachments: Attachment[]): boolean {
    const conversation = this.current;
    if (this.running.has(conversation.id)) return false;
    const message = makeMessage('user', text.trim());
    message.attachments = attachments;
    return this.generate(conversation, message, shownPath(conversation).at(-1)?.id ?? null);
  }

  // An edited question is asked as a sibling of the old one; an edited answer is kept beside the old one.
  // Whether the editor may close: what could not be sent stays in it.
  private saveEdit(message: Message, content: string): boolean {
    const conversation = this.current;
    if (content.trim() === '' || content === message.content) return true;
    if (this.running.has(conversation.id)) {
      this.notices.show('An answer is still coming in. Stop it or wait for its end, then save the edit.');
      return false;
    }
    const edited = makeMessage(message.role, content);
    edited.attachments = message.attachments;
    if (message.role === 'user') return this.generate(conversation, edited, message.parent);
    edited.isJson = message.isJson;
    edited.model = message.model;
    addMessage(conversation, edited, message.parent);
    this.conversations.save(conversation);
    this.draw();
    this.thread.focusBranch(edited, -1); // the button that had the focus is gone
    return true;
  }

  private regenerate(message: Message): void {
    const conversation = this.current;
    if (message.parent === null || this.running.has(conversation.id)) return;
    this.generate(conversation, null, message.parent);
  }

  // What came in before a failure is kept as a sibling; an answer without a word is replaced.
  private retry(message: Message): void {
    if (this.running.has(this.current.id)) return;
    if (message.content === '' && message.reasoning === '') removeMessage(this.current, message);
    this.regenerate(message);
  }

  regenerateLast(): void {
    const last = shownPath(this.current).findLast((message) => message.role === 'assistant');
    if (last !== undefined) this.regenerate(last);
  }

  editLast(): void {
    const last = shownPath(this.current).findLast((message) => message.role === 'user');
    if (last !== undefined) this.thread.edit(last);
  }

  private sibling(message: Message, step: number): void {
    if (this.running.has(this.current.id)) return;
    const shown = showSibling(this.current, message, step);
    this.conversations.save(this.current);
    this.draw();
    this.thread.focusBranch(shown, step);
  }

  stop(): void {
    this.running.get(this.current.id)?.stop();
  }

  closeOrStop(): void {
    if (!this.drawers.closeOverlays()) this.stop();
  }

  // Adds a question, if there is one, and asks for its answer. Whether the request could be made.
  private generate(conversation: Conversation, question: Message | null, parent: string | null): boolean {
    const path = question === null ? pathTo(conversation, parent) : [...pathTo(conversation, parent), question];
    let body;
    try {
      body = streamed(chatBody(conversation.settings, path));
    } catch (error) {
      this.notices.show((error as Error).message); // a schema that is not JSON
      return false;
    }
    if (question !== null) addMessage(conversation, question, parent);
    const message = makeMessage('assistant', '');
    message.state = 'streaming';
    message.isJson = conversation.settings.useSchema;
    message.model = conversation.settings.model;
    addMessage(conversation, message, question?.id ?? parent);
    void this.receive(conversation, message, body);
    return true;
  }

  private async receive(conversation: Conversation, message: Message, body: ReturnType<typeof streamed>): Promise<void> {
    let timer = 0;
    const generation = new Generation(message, () => {
      if (timer !== 0) return;
      timer = window.setTimeout(() => {
        timer = 0;
        if (this.conversations.get(conversation.id) === conversation) this.conversations.save(conversation); // unless deleted
        if (this.current.id === conversation.id) this.thread.update(message, conversation);
      }, kDrawDelayMs);
    });
    this.running.set(conversation.id, generation);
    this.conversations.save(conversation);
    this.notices.clear();
    this.draw();
    // Regenerate, Retry and the editor are gone with their message; the keyboard goes on at Stop.
    if (document.activeElement === document.body) byId('stop', HTMLButtonElement).focus();
    this.thread.toEnd();
    this.notices.say('The model is answering.');
    const refusal = await generation.run(this.client, body);
    window.clearTimeout(timer);
    this.finish(conversation, message);
    if (refusal?.failure === 'key' && (await this.changeKey(refusal.message))) await this.tryWithKey(conversation, message);
  }

  private finish(conversation: Conversation, message: Message): void {
    this.running.delete(conversation.id);
    // A conversation that was deleted meanwhile stays deleted.
    if (this.conversations.get(conversation.id) === conversation) {
      conversation.updatedAt = Date.now();
      this.conversations.save(conversation);
      this.conversations.flush();
    }
    this.draw();
    const endings = { complete: `Answer: ${message.content}`, stopped: 'Stopped.', failed: `The answer failed: ${message.error}`, streaming: '' };
    this.notices.say(endings[message.state]);
  }

  private async tryWithKey(conversation: Conversation, message: Message): Promise<void> {
    await this.askServer();
    if (this.current.id === conversation.id && findMessage(conversation, message.id) !== undefined) this.retry(message);
  }

  private async copy(text: string, what: string): Promise<void> {
    const isCopied = await copyText(text);
    if (isCopied) this.notices.say(`${what} copied.`);
    else this.notices.show('The browser refused to copy. Select the text and copy it by hand.');
  }

  private copyRequest(path: Message[], program: 'curl' | 'python'): void {
    try {
      const body = chatBody(this.current.settings, path);
      const write = program === 'curl' ? asCurl : asPython;
      void this.copy(write(this.client.baseUrl, body, this.key !== ''), program === 'curl' ? 'curl command' : 'Python program');
    } catch (error) {
      this.notices.show((error as Error).message);
    }
  }

  // The conversation with what is being written now.
  copyDraft(program: 'curl' | 'python'): void {
    const { text, attachments } = this.composer.draft;
    const path = shownPath(this.current);
    if (path.at(-1)?.role === 'assistant' && text.trim() === '' && attachments.length === 0) path.pop(); // the question that was answered
    const draft = makeMessage('user', text.trim());
    draft.attachments = attachments;
    this.copyRequest([...path, draft], program);
  }

  exportAll(): void {
    const address = URL.createObjectURL(new Blob([this.conversations.exported()], { type: 'application/json' }));
    const day = new Date().toISOString().slice(0, 10);
    make('a', { attributes: { href: address, download: `ballast-conversations-${day}.json` } }).click();
    window.setTimeout(() => URL.revokeObjectURL(address), 10_000);
  }

  import(text: string): void {
    try {
      const count = this.conversations.import(text);
      const summary = count === 0 ? 'All of these conversations are here already.' : `Imported ${count} conversation${count === 1 ? '' : 's'}.`;
      this.notices.clear();
      this.notices.show(summary, 'done');
      this.draw();
    } catch (error) {
      this.notices.show(`Nothing was imported. ${(error as Error).message}`);
    }
  }

  problem(text: string): void {
    this.notices.show(text);
  }
}
