// All conversations of this browser, and which of them is shown.

import { type Conversation, endInterrupted, makeConversation } from './conversation.ts';
import { type Settings, defaultSettings, readSettings } from './settings.ts';
import { Store, type StoreEvents, recall, remember, storageOf } from './store.ts';
import { exportText, mergeImported, readExport } from './transfer.ts';

export class Conversations {
  private readonly all = new Map<string, Conversation>();
  private readonly store: Store;
  private readonly storage = storageOf('localStorage');
  private readonly session = storageOf('sessionStorage');
  private shown: Conversation;

  constructor(events: StoreEvents) {
    this.store = new Store(events);
    this.shown = makeConversation(this.lastSettings());
  }

  async open(): Promise<void> {
    await this.store.open();
    await this.reload(() => false);
    this.all.forEach(endInterrupted); // where another tab is still receiving one, it says so with its next save
    const last = this.all.get(recall(this.session, 'shown') || recall(this.storage, 'shown'));
    if (last !== undefined) this.shown = last;
  }

  // What another tab changed. Conversations that `isBusy` here are left as they are: they are saved soon, and win.
  async reload(isBusy: (id: string) => boolean): Promise<void> {
    const stored = new Map((await this.store.load()).map((conversation) => [conversation.id, conversation]));
    for (const id of [...this.all.keys()]) if (!stored.has(id) && !isBusy(id)) this.all.delete(id);
    for (const [id, conversation] of stored) if (!isBusy(id)) this.all.set(id, conversation);
    this.shown = this.all.get(this.shown.id) ?? (this.shown.messages.length === 0 || isBusy(this.shown.id) ? this.shown : this.fresh());
  }

  get current(): Conversation {
    return this.shown;
  }

  // The latest first.
  list(): Conversation[] {
    return [...this.all.values()].sort((a, b) => b.updatedAt - a.updatedAt || (a.id < b.id ? -1 : 1));
  }

  get(id: string): Conversation | undefined {
    return this.all.get(id);
  }

  show(id: string): void {
    const conversation = this.all.get(id);
    if (conversation !== undefined) this.setShown(conversation);
  }

  // A new one takes over the settings, except for the schema, which belongs to a question. It is kept from its first
  // message on.
  begin(): void {
    this.setShown(this.fresh());
  }

  save(conversation: Conversation): void {
    if (conversation.messages.length === 0) return;
    if (conversation === this.shown && !this.all.has(conversation.id)) this.setShown(conversation);
    this.all.set(conversation.id, conversation);
    this.store.save(conversation);
  }

  changeSettings(change: Partial<Settings>): void {
    Object.assign(this.shown.settings, change);
    remember(this.storage, 'settings', JSON.stringify({ ...this.shown.settings, useSchema: false, schema: '' }));
    this.save(this.shown);
  }

  remove(ids: readonly string[]): void {
    for (const id of ids) this.all.delete(id);
    this.store.remove(ids);
    if (ids.includes(this.shown.id)) this.begin();
  }

  flush(): void {
    this.store.flush();
  }

  exported(): string {
    return exportText(this.list());
  }

  // How many came in; throws an ImportError, and then nothing has.
  import(text: string): number {
    const added = mergeImported(this.all, readExport(text));
    for (const conversation of added) this.save(conversation);
    return added.length;
  }

  private fresh(): Conversation {
    return makeConversation(this.lastSettings());
  }

  private setShown(conversation: Conversation): void {
    this.shown = conversation;
    remember(this.storage, 'shown', conversation.id);
    remember(this.session, 'shown', conversation.id);
  }

  private lastSettings(): Settings {
    try {
      return readSettings(JSON.parse(recall(this.storage, 'settings')));
    } catch {
      return defaultSettings();
    }
  }
}
