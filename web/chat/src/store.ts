// Where conversations are kept: the browser's own database. Where the browser refuses (a private window, a full disk),
// the page works on, and says that it forgets.

import type { Conversation } from './conversation.ts';
import { readConversation } from './transfer.ts';

const kDatabase = 'ballast-chat';
const kTable = 'conversations';
const kSaveDelayMs = 400;
const kReloadDelayMs = 700; // while another tab receives an answer it saves all the time

function finished<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error('The database failed.'));
  });
}

// A quota is often only noticed when the transaction ends.
function committed(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = transaction.onerror = () => reject(transaction.error ?? new Error('The database gave up.'));
  });
}

function openDatabase(): Promise<IDBDatabase> {
  const request = indexedDB.open(kDatabase, 1);
  request.onupgradeneeded = () => request.result.createObjectStore(kTable, { keyPath: 'id' });
  return finished(request);
}

export interface StoreEvents {
  problem: (message: string) => void;
  changedElsewhere: () => void; // another tab saved or deleted something
}

export class Store {
  private database: IDBDatabase | null = null;
  private readonly events: StoreEvents;
  private readonly waiting = new Map<string, Conversation>();
  private timer = 0;
  private wasFull = false;
  private readonly channel = typeof BroadcastChannel === 'undefined' ? null : new BroadcastChannel(kDatabase);

  constructor(events: StoreEvents) {
    this.events = events;
    let timer = 0;
    if (this.channel === null) return;
    this.channel.onmessage = () => {
      window.clearTimeout(timer);
      timer = window.setTimeout(() => events.changedElsewhere(), kReloadDelayMs);
    };
  }

  async open(): Promise<void> {
    try {
      this.database = await openDatabase();
    } catch {
      this.events.problem('This browser does not let the page store data: conversations are lost when the page is closed. Export what you want to keep.');
    }
  }

  // What was stored is checked like an imported file: another version of the page may have written it.
  async load(): Promise<Conversation[]> {
    if (this.database === null) return [];
    const stored: unknown[] = await finished(this.database.transaction(kTable).objectStore(kTable).getAll()).catch(() => []);
    const conversations: Conversation[] = [];
    let unreadable = 0;
    for (const [index, value] of stored.entries()) {
      try {
        conversations.push(readConversation(value, `stored[${index}]`));
      } catch {
        ++unreadable;
      }
    }
    if (unreadable > 0) this.events.problem(`${unreadable} stored conversations could not be read and are not shown.`);
    return conversations;
  }

  // Saves soon; many changes in a row are saved once.
  save(conversation: Conversation): void {
    this.waiting.set(conversation.id, conversation);
    if (this.timer === 0) this.timer = window.setTimeout(() => this.flush(), kSaveDelayMs);
  }

  flush(): void {
    window.clearTimeout(this.timer);
    this.timer = 0;
    const conversations = [...this.waiting.values()];
    this.waiting.clear();
    if (conversations.length > 0) void this.change((table) => conversations.forEach((conversation) => table.put(conversation)));
  }

  remove(ids: readonly string[]): void {
    for (const id of ids) this.waiting.delete(id);
    void this.change((table) => ids.forEach((id) => table.delete(id)));
  }

  private async change(work: (table: IDBObjectStore) => void): Promise<void> {
    if (this.database === null) return;
    try {
      const transaction = this.database.transaction(kTable, 'readwrite');
      work(transaction.objectStore(kTable));
      await committed(transaction);
      this.wasFull = false;
      this.channel?.postMessage('changed');
    } catch (error) {
      if (this.wasFull) return; // once is enough
      this.wasFull = true;
      const isFull = error instanceof DOMException && error.name === 'QuotaExceededError';
      this.events.problem(isFull
        ? "The browser's storage is full: the latest messages are not saved. Export them, or delete old conversations."
        : `The latest messages could not be saved: ${error instanceof Error ? error.message : error}`);
    }
  }
}

// Small choices (theme, last settings). A browser that refuses simply forgets them.
export function remember(area: Storage | null, name: string, value: string): void {
  try {
    area?.setItem(`ballast-${name}`, value);
  } catch {
    // no room, or not allowed
  }
}

export function recall(area: Storage | null, name: string): string {
  try {
    return area?.getItem(`ballast-${name}`) ?? '';
  } catch {
    return '';
  }
}

// Reading window.localStorage itself throws where storage is blocked.
export function storageOf(name: 'localStorage' | 'sessionStorage'): Storage | null {
  try {
    return window[name];
  } catch {
    return null;
  }
}
