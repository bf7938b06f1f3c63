// Tabs, as the ARIA practices describe them: arrow keys move, each panel is built when it is first shown.

import { byId, make } from './element.ts';

export interface Tab {
  id: string; // of the panel, in index.html
  label: string;
  badge?: string;
  build: (panel: HTMLElement) => void;
}

export class Tabs {
  private readonly list = byId('tabs', HTMLElement);
  private tabs: readonly Tab[] = [];
  private built = new Set<string>();
  private readonly shown: (id: string) => void;

  constructor(shown: (id: string) => void) {
    this.shown = shown;
    this.list.addEventListener('keydown', (event) => this.move(event));
  }

  set(tabs: readonly Tab[]): void {
    this.tabs = tabs;
    this.built.clear();
    for (const { id } of tabs) {
      byId(id, HTMLElement).replaceChildren();
      byId(id, HTMLElement).setAttribute('aria-labelledby', `tab-${id}`);
    }
    this.list.replaceChildren(...tabs.map(({ id, label, badge }) => make('button', {
      attributes: { type: 'button', role: 'tab', id: `tab-${id}`, 'aria-controls': id },
      click: () => this.show(id),
    }, label, badge === undefined ? null : make('span', { attributes: { class: 'badge' } }, badge))));
    if (tabs.length > 0) this.show(tabs[0]!.id);
  }

  show(id: string): void {
    for (const tab of this.tabs) {
      const isShown = tab.id === id;
      const handle = byId(`tab-${tab.id}`, HTMLButtonElement);
      handle.setAttribute('aria-selected', String(isShown));
      handle.tabIndex = isShown ? 0 : -1;
      const panel = byId(tab.id, HTMLElement);
      panel.hidden = !isShown;
      if (!isShown || this.built.has(id)) continue;
      this.built.add(id);
      tab.build(panel);
    }
    this.shown(id);
  }

  private move(event: KeyboardEvent): void {
    const at = this.tabs.findIndex(({ id }) => byId(`tab-${id}`, HTMLElement) === document.activeElement);
    const moves: Record<string, number> = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: this.tabs.length - 1 };
    const next = moves[event.key];
    if (at < 0 || next === undefined) return;
    event.preventDefault();
    const { id } = this.tabs[(next + this.tabs.length) % this.tabs.length]!;
    this.show(id);
    byId(`tab-${id}`, HTMLElement).focus();
  }
}
