// What the user does, and what follows.

import { chosenFiles, droppedFiles, type PathFile } from './dropped.ts';
import { engine, type Archive, type Source } from './engine.ts';
import { failureOf, isCancelled } from './failure.ts';
import { groupFiles } from './groups.ts';
import { isServed, servedFiles, type ServedFile } from './served.ts';
import { bytesText, plural } from './text.ts';
import { CompareView } from './view/compare_view.ts';
import { convertView } from './view/convert_view.ts';
import { announce, button, byId, make, show } from './view/element.ts';
import { failureCard } from './view/failure_card.ts';
import { findingsView } from './view/findings_view.ts';
import { metadataView } from './view/metadata_view.ts';
import { overview } from './view/overview.ts';
import { TensorTable } from './view/table.ts';
import { Tabs } from './view/tabs.ts';
import { TensorPanel } from './view/tensor_panel.ts';
import type { TreemapView } from './view/treemap_view.ts';

interface Openable {
  title: string;
  detail: string;
  source: Source;
}

const kTitle = 'Look inside any weight file';

export class App {
  private readonly tabs = new Tabs((id) => { this.tab = id; });
  private tab = 'overview';
  private archive: Archive | null = null;
  private opening: AbortController | null = null;
  private watching = new AbortController(); // work for the open file
  private panel: TensorPanel | null = null;
  private comparing: CompareView | null = null;
  private treemap: TreemapView | null = null;
  private offered: readonly Openable[] = [];

  start(): void {
    const files = byId('files', HTMLInputElement);
    const folder = byId('folder', HTMLInputElement);
    const second = byId('second-files', HTMLInputElement);
    byId('choose-files', HTMLButtonElement).addEventListener('click', () => files.click());
    byId('choose-folder', HTMLButtonElement).addEventListener('click', () => folder.click());
    byId('open-other', HTMLButtonElement).addEventListener('click', () => this.welcome());
    byId('working-stop', HTMLButtonElement).addEventListener('click', () => this.opening?.abort());
    for (const input of [files, folder]) this.onChosen(input, (chosen) => this.offer(openables(chosen)));
    this.onChosen(second, (chosen) => this.compareFirst(chosen));
    byId('url-form', HTMLFormElement).addEventListener('submit', (event) => {
      event.preventDefault();
      const url = byId('url', HTMLInputElement).value;
      void this.open({ title: new URL(url).pathname.split('/').at(-1) || url, detail: url, source: new URL(url) });
    });
    this.listenForDrops();
    void this.openServed();
  }

  themeChanged(): void {
    this.treemap?.draw();
  }

  private onChosen(input: HTMLInputElement, use: (files: PathFile[]) => void): void {
    input.addEventListener('change', () => {
      const chosen = chosenFiles(input.files ?? []);
      input.value = ''; // so that the same file can be chosen again
      if (chosen.length > 0) use(chosen);
    });
  }

  private listenForDrops(): void {
    const drop = byId('drop', HTMLElement);
    document.addEventListener('dragover', (event) => {
      event.preventDefault();
      drop.classList.add('over');
    });
    document.addEventListener('dragleave', (event) => {
      if (event.relatedTarget === null) drop.classList.remove('over');
    });
    document.addEventListener('drop', (event) => {
      event.preventDefault();
      drop.classList.remove('over');
      if (event.dataTransfer === null) return;
      void droppedFiles(event.dataTransfer.items).then((files) => {
        if (files.length === 0) return;
        if (this.archive !== null && this.tab === 'compare') this.compareFirst(files);
        else this.offer(openables(files));
      }, (error: unknown) => this.fail(error, 'The files that were dropped'));
    });
  }

  // `ballast lens` serves files beside the page; on any other server there are none.
  private async openServed(): Promise<void> {
    if (isServed()) byId('url-form', HTMLFormElement).hidden = true; // its policy lets the page reach that server alone
    try {
      const files = await servedFiles();
      if (files.length > 0) this.offer(servedOpenables(files));
    } catch (error) {
      this.fail(error, 'The files of this server');
    }
  }

  // One is opened, of several the user chooses.
  private offer(found: readonly Openable[]): void {
    this.offered = found;
    if (found.length === 1) void this.open(found[0]!);
    else this.welcome();
  }

  private welcome(): void {
    this.close();
    this.showOnly('welcome');
    show('offered', this.offered.length > 1);
    byId('offered-list', HTMLElement).replaceChildren(...this.offered.map((one) => make('li', {}, button(one.title, () => void this.open(one), 'link'),
      make('span', { attributes: { class: 'soft' } }, one.detail))));
    if (this.offered.length > 1) announce(`${plural(this.offered.length, 'file')} to choose from`);
    this.setTitle(null);
  }

  private close(): void {
    this.opening?.abort();
    this.watching.abort();
    this.watching = new AbortController();
    this.panel?.stop();
    this.panel = null;
    show('tensor', false);
    this.comparing?.stop();
    this.comparing = null;
    this.treemap = null;
    void this.archive?.close().catch(() => {}); // a module that failed has closed it already
    this.archive = null;
  }

  private async open({ title, source }: Openable): Promise<void> {
    this.close();
    const opening = this.opening = new AbortController();
    byId('working-text', HTMLElement).textContent = `Opening ${title}`;
    this.showOnly('working');
    try {
      const archive = await (await engine()).open(source, { signal: opening.signal });
      if (opening.signal.aborted) return void archive.close();
      this.show(archive, title);
    } catch (error) {
      if (this.opening !== opening) return; // another file is being opened
      if (isCancelled(error) || opening.signal.aborted) this.welcome();
      else this.fail(error, title);
    }
  }

  private fail(error: unknown, title: string): void {
    byId('failure', HTMLElement).replaceChildren(failureCard(failureOf(error)), make('p', { attributes: { class: 'hint' } }, title), button('Open another file', () => this.welcome(), 'primary'));
    this.setTitle(null);
    this.showOnly('failure');
  }

  private show(archive: Archive, title: string): void {
    this.archive = archive;
    this.setTitle(title);
    this.showOnly('work');
    const openTensor = (at: number): void => this.openTensor(at);
    this.tabs.set([
      { id: 'overview', label: 'Overview', build: (panel) => {
        const { element, treemap } = overview(archive, openTensor);
        this.treemap = treemap;
        panel.append(element);
      } },
      { id: 'tensors', label: 'Tensors', badge: String(archive.tensors.length), build: (panel) => panel.append(new TensorTable(archive, openTensor).element) },
      { id: 'metadata', label: 'Metadata', build: (panel) => panel.append(metadataView(archive)) },
      { id: 'findings', label: 'Findings', build: (panel) => panel.append(findingsView(archive, this.watching.signal)) },
      { id: 'compare', label: 'Compare', build: (panel) => {
        const others = this.offered.filter((one) => one.title !== title).map((one) => ({ title: one.title, choose: () => this.compareWith(one) }));
        this.comparing = new CompareView(archive, title, others, () => byId('second-files', HTMLInputElement).click());
        panel.append(this.comparing.element);
      } },
      { id: 'convert', label: 'Convert', build: (panel) => panel.append(convertView(archive, title)) },
    ]);
    announce(`${title}: ${archive.format}, ${plural(archive.tensors.length, 'tensor')}, ${bytesText(archive.bytes)}`);
  }

  private openTensor(at: number): void {
    if (this.archive === null) return;
    this.panel?.stop();
    this.panel = new TensorPanel(this.archive, this.archive.tensors[at]!, () => { this.panel = null; });
  }

  private compareFirst(files: readonly PathFile[]): void {
    const [second] = openables(files);
    if (second !== undefined) this.compareWith(second);
  }

  private compareWith(second: Openable): void {
    const { comparing } = this;
    if (comparing === null) return;
    void engine().then((ballast) => ballast.open(second.source)).then(
      (archive) => (this.comparing === comparing ? comparing.compareWith(archive, second.title) : archive.close()),
      (error: unknown) => comparing.fail(error));
  }

  private setTitle(file: string | null): void {
    byId('title', HTMLElement).textContent = file ?? kTitle;
    document.title = file === null ? 'Ballast Lens' : `${file} · Ballast Lens`;
    byId('open-other', HTMLButtonElement).hidden = file === null;
  }

  private showOnly(id: 'welcome' | 'working' | 'failure' | 'work'): void {
    for (const one of ['welcome', 'working', 'failure', 'work']) show(one, one === id);
  }
}

function openables(files: readonly PathFile[]): Openable[] {
  return groupFiles(files.map(({ path }) => path)).map(({ title, members }) => {
    const parts = members.map((at) => files[at]!.file);
    return { title, detail: detailOf(parts), source: parts.length === 1 ? parts[0]! : parts };
  });
}

function servedOpenables(files: readonly ServedFile[]): Openable[] {
  return groupFiles(files.map(({ name }) => name)).map(({ title, members }) => {
    const parts = members.map((at) => files[at]!);
    const source = parts.map(({ name, url }) => ({ name, url: url.href }));
    return { title, detail: detailOf(parts), source: source.length === 1 ? source[0]! : source };
  });
}

function detailOf(parts: readonly { size: number }[]): string {
  const bytes = bytesText(parts.reduce((sum, { size }) => sum + size, 0));
  return parts.length === 1 ? bytes : `${plural(parts.length, 'file')}, ${bytes}`;
}
