// Elements without markup in strings.

type Child = Node | string | null;

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

// An element of index.html.
export function byId<T extends HTMLElement>(id: string, type: new () => T): T {
  const element = document.getElementById(id);
  if (!(element instanceof type)) throw new Error(`index.html has no ${type.name} with the id ${id}.`);
  return element;
}

// Line drawings on a grid of 24.
const kIcons = {
  menu: 'M4 6h16M4 12h16M4 18h16',
  settings: 'M4 7h9M17 7h3M4 17h3M11 17h9M15 5v4M9 15v4',
  close: 'M6 6l12 12M18 6L6 18',
  attach: 'M19 11l-7.5 7.5a4.5 4.5 0 0 1-6.4-6.4L13 4.300a3 3 0 0 1 4.200 4.200L9.500 16.200a1.500 1.500 0 0 1-2.100-2.100L14 7.500',
  copy: 'M9 9h11v11H9zM5 15H4V4h11v1',
  edit: 'M4 20l1-4L16 5l3 3L8 19zM14 7l3 3',
  again: 'M4 12a8 8 0 1 0 3-6.200M4 4v4h4',
  before: 'M15 5l-7 7 7 7',
  after: 'M9 5l7 7-7 7',
  remove: 'M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13',
  terminal: 'M4 6l5 6-5 6M12 18h8',
  code: 'M8 7l-5 5 5 5M16 7l5 5-5 5',
  sun: 'M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.500 1.500M17.500 17.500L19 19M5 19l1.500-1.500M17.500 6.500L19 5',
  moon: 'M20 14a8 8 0 0 1-10-10 8 8 0 1 0 10 10z',
  system: 'M4 5h16v11H4zM9 20h6M12 16v4',
} as const;

export type IconName = keyof typeof kIcons;

export function icon(name: IconName): SVGSVGElement {
  const svg = document.createElementNS('http://www.w3.org/2000/svg', 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS('http://www.w3.org/2000/svg', 'path');
  path.setAttribute('d', kIcons[name]);
  svg.append(path);
  return svg;
}

export function iconButton(name: IconName, label: string, click: () => void): HTMLButtonElement {
  return make('button', { attributes: { type: 'button', class: 'icon', 'aria-label': label, title: label }, click }, icon(name));
}
