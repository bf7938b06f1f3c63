// Elements without markup in strings.

export type Child = Node | string | null;

interface Properties {
  attributes?: Record<string, string>;
  click?: () => void;
}

export function make<K extends keyof HTMLElementTagNameMap>(tag: K, properties: Properties = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties.attributes ?? {})) element.setAttribute(name, value);
  if (properties.click !== undefined) element.addEventListener('click', properties.click);
  element.append(...children.filter((child) => child !== null));
  return element;
}

// The shape most elements here have: a class and children.
export function box(className: string, ...children: Child[]): HTMLDivElement {
  return make('div', { attributes: { class: className } }, ...children);
}

export function button(text: string, click: () => void, className = ''): HTMLButtonElement {
  return make('button', { attributes: className === '' ? { type: 'button' } : { type: 'button', class: className }, click }, text);
}

// In place of what is there.
export function fill(element: Element, ...children: Child[]): void {
  element.replaceChildren(...children.filter((child) => child !== null));
}

// A labelled field.
let fields = 0;
export function field<T extends HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement>(label: string, control: T, hint: Child = null): HTMLDivElement {
  control.id ||= `field-${++fields}`;
  return box('field', make('label', { attributes: { for: control.id } }, label), control,
    typeof hint === 'string' ? make('p', { attributes: { class: 'hint' } }, hint) : hint);
}

export function select(options: readonly (readonly [value: string, text: string])[], change: () => void = () => {}): HTMLSelectElement {
  const element = make('select', {}, ...options.map(([value, text]) => make('option', { attributes: { value } }, text)));
  element.addEventListener('change', change);
  return element;
}

export function svg<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Record<string, string | number> = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  element.append(...children.filter((child) => child !== null));
  return element;
}

// An element of index.html.
export function byId<T extends HTMLElement>(id: string, type: new () => T): T {
  const element = document.getElementById(id);
  if (!(element instanceof type)) throw new Error(`index.html has no ${type.name} with the id ${id}.`);
  return element;
}

export function show(id: string, isShown: boolean): void {
  byId(id, HTMLElement).hidden = !isShown;
}

// For screen readers alone.
export function announce(text: string): void {
  byId('status', HTMLElement).textContent = text;
}

// Line drawings on a grid of 24.
const kIcons = {
  close: 'M6 6l12 12M18 6L6 18',
  plus: 'M5 12h14M12 5v14',
  minus: 'M5 12h14',
  fit: 'M4 9V4h5M20 9V4h-5M4 15v5h5M20 15v5h-5',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.500 1.500M17.500 17.500L19 19M5 19l1.500-1.500M17.500 6.500L19 5',
  moon: 'M20 14a8 8 0 0 1-10-10 8 8 0 1 0 10 10z',
  system: 'M4 5h16v11H4zM9 20h6M12 16v4',
} as const;

export type IconName = keyof typeof kIcons;

export function icon(name: IconName): SVGSVGElement {
  return svg('svg', { viewBox: '0 0 24 24', 'aria-hidden': 'true', class: 'icon-drawing' }, svg('path', { d: kIcons[name] }));
}

export function iconButton(name: IconName, label: string, click: () => void): HTMLButtonElement {
  return make('button', { attributes: { type: 'button', class: 'icon', 'aria-label': label, title: label }, click }, icon(name));
}
