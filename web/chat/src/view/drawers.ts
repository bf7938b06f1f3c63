// The conversations on the left and the settings on the right. On a small screen they lie above the messages, one at a time.

import { recall, remember, storageOf } from '../store.ts';
import { byId, icon } from './element.ts';

const kSmall = window.matchMedia('(max-width: 900px)');

class Drawer {
  readonly element: HTMLElement;
  private readonly button: HTMLButtonElement;

  constructor(id: string, buttonId: string) {
    this.element = byId(id, HTMLElement);
    this.button = byId(buttonId, HTMLButtonElement);
  }
  get isOpen(): boolean {
    return !this.element.hidden;
  }
  set(isOpen: boolean): void {
    this.element.hidden = !isOpen;
    this.button.setAttribute('aria-expanded', String(isOpen));
  }
  close(): void {
    const hadFocus = this.element.contains(document.activeElement);
    this.set(false);
    if (hadFocus) this.button.focus();
  }
}

export class Drawers {
  private readonly sidebar = new Drawer('sidebar', 'toggle-sidebar');
  private readonly panel = new Drawer('panel', 'toggle-panel');
  private readonly scrim = byId('scrim', HTMLElement);
  private readonly behind = document.querySelectorAll<HTMLElement>('main, .skip'); // the scrim, while it shows
  private readonly storage = storageOf('localStorage');

  constructor() {
    byId('toggle-sidebar', HTMLButtonElement).append(icon('menu'));
    byId('toggle-panel', HTMLButtonElement).append(icon('settings'));
    byId('close-panel', HTMLButtonElement).append(icon('close'));
    byId('close-sidebar', HTMLButtonElement).append(icon('close'));
    byId('toggle-sidebar', HTMLButtonElement).addEventListener('click', () => this.toggleSidebar());
    byId('toggle-panel', HTMLButtonElement).addEventListener('click', () => this.togglePanel());
    byId('close-panel', HTMLButtonElement).addEventListener('click', () => this.togglePanel());
    byId('close-sidebar', HTMLButtonElement).addEventListener('click', () => this.toggleSidebar());
    this.scrim.addEventListener('click', () => this.closeOverlays());
    kSmall.addEventListener('change', () => this.arrange());
    this.arrange();
  }

  toggleSidebar(): void {
    if (this.sidebar.isOpen) this.close(this.sidebar);
    else this.show(this.sidebar);
    this.settle();
  }

  togglePanel(): void {
    if (this.panel.isOpen) this.close(this.panel);
    else this.show(this.panel);
    if (!kSmall.matches) remember(this.storage, 'panel', this.panel.isOpen ? 'open' : '');
    this.settle();
  }

  // Whether there was one to close. Only on small screens: elsewhere they cover nothing.
  closeOverlays(): boolean {
    if (!kSmall.matches || !(this.sidebar.isOpen || this.panel.isOpen)) return false;
    this.close(this.sidebar);
    this.close(this.panel);
    this.settle();
    return true;
  }

  // The button that gets the focus back is in what the scrim covers, and nothing there takes the focus while it does.
  private close(drawer: Drawer): void {
    this.cover(false);
    drawer.close();
  }

  private show(drawer: Drawer): void {
    if (kSmall.matches) this.closeOverlays();
    drawer.set(true);
    drawer.element.querySelector<HTMLElement>('button, textarea')?.focus();
  }

  private arrange(): void {
    this.sidebar.set(!kSmall.matches);
    this.panel.set(!kSmall.matches && recall(this.storage, 'panel') === 'open');
    this.settle();
  }

  private settle(): void {
    this.cover(kSmall.matches && (this.sidebar.isOpen || this.panel.isOpen));
  }

  private cover(isCovered: boolean): void {
    this.scrim.hidden = !isCovered;
    for (const element of this.behind) element.inert = isCovered;
  }
}
