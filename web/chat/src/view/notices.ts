// Notices at the top of the page, and what only a screen reader hears.

import { byId, iconButton, make } from './element.ts';

const kMostNotices = 3;
const kMostSpokenChars = 1500; // of an answer: it can be read on in the page itself

export class Notices {
  private readonly region = byId('notices', HTMLElement);
  private readonly status = byId('status', HTMLElement);

  // Problems are red, good news is not. The same text is not shown twice.
  show(text: string, kind: 'problem' | 'done' = 'problem'): void {
    const same = [...this.region.children].find((notice) => notice.firstChild?.textContent === text);
    if (same !== undefined) return;
    while (this.region.childElementCount >= kMostNotices) this.region.firstElementChild?.remove();
    const notice = make('div', { attributes: { class: `notice ${kind}` } }, make('span', {}, text));
    notice.append(iconButton('close', 'Dismiss', () => notice.remove()));
    this.region.append(notice);
  }

  clear(): void {
    this.region.replaceChildren();
  }

  say(text: string): void {
    this.status.textContent = text.slice(0, kMostSpokenChars);
  }
}
