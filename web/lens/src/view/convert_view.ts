// Another format, fewer tensors, other names, other types: written piece by piece to where the user wants it.

import { engine, type Archive, type ConvertOptions, type ConvertReport, type FormatInfo } from '../engine.ts';
import { failureOf, isCancelled } from '../failure.ts';
import { compileRenaming, previewOf } from '../renaming.ts';
import { compilePattern } from '../rows.ts';
import { saveTarget } from '../save.ts';
import { bytesText, plural } from '../text.ts';
import { box, button, field, make, select } from './element.ts';
import { failureCard } from './failure_card.ts';

const kCasts = [['', 'as they are'], ['f32', 'f32'], ['f16', 'f16'], ['bf16', 'bf16'], ['f64', 'f64']] as const;

export function convertView(archive: Archive, name: string): HTMLElement {
  const place = box('convert-view', make('p', {}, 'Reading the list of formats'));
  void engine().then((ballast) => ballast.formats()).then((formats) => place.replaceChildren(new ConvertForm(archive, name, formats.filter(({ writes }) => writes)).element),
    (error: unknown) => place.replaceChildren(failureCard(failureOf(error))));
  return place;
}

class ConvertForm {
  readonly element: HTMLElement;
  private readonly archive: Archive;
  private readonly formats: readonly FormatInfo[];
  private readonly format: HTMLSelectElement;
  private readonly cast: HTMLSelectElement;
  private readonly quantise: HTMLSelectElement;
  private readonly fileName: HTMLInputElement;
  private readonly filter = make('input', { attributes: { type: 'text', spellcheck: 'false', placeholder: '^model\\.layers\\.' } });
  private readonly find = make('input', { attributes: { type: 'text', spellcheck: 'false', placeholder: '^model\\.' } });
  private readonly replacement = make('input', { attributes: { type: 'text', spellcheck: 'false' } });
  private readonly lossy = make('input', { attributes: { type: 'checkbox' } });
  private readonly config = make('textarea', { attributes: { rows: '4', spellcheck: 'false' } });
  private readonly keeps = make('p', { attributes: { class: 'hint', role: 'status' } });
  private readonly renames = make('p', { attributes: { class: 'hint', role: 'status' } });
  private readonly result = box('convert-result');
  private readonly start = make('button', { attributes: { type: 'submit', class: 'primary' } }, 'Convert and save');
  private working: AbortController | null = null;
  private readonly cancel = button('Cancel', () => this.working?.abort());

  constructor(archive: Archive, name: string, formats: readonly FormatInfo[]) {
    this.archive = archive;
    this.formats = formats;
    this.format = select(formats.map(({ name: word, summary }) => [word, summary === '' ? word : `${word}: ${summary}`] as const), () => this.nameFile());
    this.cast = select(kCasts);
    this.quantise = select([['', 'as they are'], ...this.blockTypes().map((word) => [word, word] as const)]);
    const safetensors = formats.find(({ name: word }) => word === 'safetensors' && archive.format !== 'safetensors');
    this.format.value = (safetensors ?? formats.find(({ name: word }) => word === archive.format) ?? formats[0])?.name ?? '';
    const stem = name.slice(name.lastIndexOf('/') + 1).replace(/(\.(safetensors|gguf|bpk|npz|npy|pt|pth|bin|ckpt|netcl|gptrs|gptrsten|gten|index|json))+$/i, '') || 'model';
    this.fileName = make('input', { attributes: { type: 'text', spellcheck: 'false', required: '', value: stem } });
    this.nameFile();
    this.cancel.hidden = true;
    this.element = this.form();
    this.preview();
  }

  private form(): HTMLElement {
    const rename = make('fieldset', {}, make('legend', {}, 'Rename tensors'), box('pair', field('Find (regular expression)', this.find), field('Replace with', this.replacement)), this.renames);
    const more = make('details', {}, make('summary', {}, 'Model config'), field('Config as JSON', this.config, 'Formats that hold whole models, such as netcl and gpt.rs, need one. Empty: the config of this file.'));
    const form = make('form', { attributes: { class: 'convert-form', 'aria-label': 'Convert' } }, field('Format', this.format), field('File name', this.fileName),
      field('Keep tensors whose name matches (regular expression)', this.filter, this.keeps), rename, box('pair', field('Floating-point tensors become', this.cast), field('Quantise matrices to', this.quantise)),
      make('label', { attributes: { class: 'check' } }, this.lossy, ' Leave out what the format cannot hold'), more, box('buttons', this.start, this.cancel), this.result);
    form.addEventListener('input', () => this.preview());
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.convert();
    });
    return form;
  }

  private blockTypes(): string[] {
    return this.archive.sizes.map(({ dtype }) => dtype).filter((dtype) => !/^(f|bf)\d/.test(dtype));
  }

  private nameFile(): void {
    const extension = this.formats.find(({ name }) => name === this.format.value)?.extensions[0] ?? '';
    const known = this.formats.flatMap(({ extensions }) => extensions).map((word) => (word.startsWith('.') ? word : `.${word}`)).sort((a, b) => b.length - a.length);
    const old = known.find((word) => this.fileName.value.endsWith(word));
    const stem = old === undefined ? this.fileName.value : this.fileName.value.slice(0, -old.length);
    this.fileName.value = extension === '' ? stem : `${stem}${extension.startsWith('.') ? '' : '.'}${extension}`;
  }

  private preview(): void {
    const pattern = compilePattern(this.filter.value);
    const kept = this.archive.tensors.filter(({ name }) => pattern.matches(name));
    this.keeps.textContent = pattern.problem ?? `${plural(kept.length, 'tensor')}, ${bytesText(kept.reduce((sum, { bytes }) => sum + bytes, 0))}`;
    const { rename, problem } = compileRenaming(this.find.value, this.replacement.value);
    this.renames.textContent = problem ?? (rename === null ? '' : previewOf(kept.map(({ name }) => name), rename));
    this.filter.setAttribute('aria-invalid', String(pattern.problem !== null));
    this.find.setAttribute('aria-invalid', String(problem !== null));
    this.start.disabled = pattern.problem !== null || problem !== null || kept.length === 0 || this.working !== null;
  }

  private options(signal: AbortSignal, progress: HTMLProgressElement): ConvertOptions {
    const pattern = compilePattern(this.filter.value);
    const { rename } = compileRenaming(this.find.value, this.replacement.value);
    return {
      format: this.format.value, fileName: this.fileName.value, allowLossy: this.lossy.checked, signal,
      ...(this.filter.value === '' ? {} : { filter: this.archive.tensors.filter(({ name }) => pattern.matches(name)).map(({ name }) => name) }),
      ...(rename === null ? {} : { rename: Object.fromEntries(this.archive.tensors.map(({ name }) => [name, rename(name)])) }),
      ...(this.cast.value === '' ? {} : { cast: this.cast.value }),
      ...(this.quantise.value === '' ? {} : { quantise: this.quantise.value }),
      ...(this.config.value.trim() === '' ? {} : { config: this.config.value }),
      onProgress: (done, total) => { progress.value = total > 0 ? done / total : 1; },
    };
  }

  private async convert(): Promise<void> {
    const working = this.working = new AbortController();
    const progress = make('progress', { attributes: { max: '1', value: '0', 'aria-label': 'Conversion' } });
    this.start.disabled = true;
    this.cancel.hidden = false;
    try {
      const target = await saveTarget(this.fileName.value);
      this.result.replaceChildren(progress);
      const report = await this.archive.convert(this.options(working.signal, progress), target.sink);
      this.result.replaceChildren(reportOf(report, this.fileName.value));
    } catch (error) {
      this.result.replaceChildren(isCancelled(error) ? make('p', { attributes: { role: 'status' } }, 'Nothing was written.') : failureCard(failureOf(error)));
    }
    this.working = null;
    this.cancel.hidden = true;
    this.preview();
  }
}

function reportOf({ tensors, bytes, notes, losses, sourceFormat, targetFormat }: ConvertReport, name: string): HTMLElement {
  const list = (title: string, texts: readonly string[]): HTMLElement | null => (texts.length === 0 ? null
    : box('report-list', make('h3', {}, title), make('ul', {}, ...texts.map((text) => make('li', {}, text)))));
  return box('report', make('p', { attributes: { class: 'verdict good', role: 'status' } },
    `Wrote ${name}: ${plural(tensors, 'tensor')}, ${bytesText(bytes)} (${sourceFormat} to ${targetFormat}).`), list('Notes', notes), list('Left out', losses));
}
