// The settings of a conversation: system prompt, sampling, JSON schema.

import { type Settings, kNumbers, parseNumber, parseSchema } from '../settings.ts';
import { byId, make } from './element.ts';

// Lengths are bounded, because small models like to go on.
const kExampleSchema = {
  type: 'object',
  properties: {
    title: { type: 'string', maxLength: 60 },
    tags: { type: 'array', items: { type: 'string', maxLength: 20 }, maxItems: 3 },
  },
  required: ['title', 'tags'],
  additionalProperties: false,
};

export class Panel {
  private readonly changed: (change: Partial<Settings>) => void;
  private readonly system = byId('system', HTMLTextAreaElement);
  private readonly schema = byId('schema', HTMLTextAreaElement);
  private readonly useSchema = byId('use-schema', HTMLInputElement);
  private readonly numbers = new Map<string, HTMLInputElement>();

  constructor(changed: (change: Partial<Settings>) => void) {
    this.changed = changed;
    for (const rule of kNumbers) this.addNumber(rule);
    this.system.addEventListener('input', () => changed({ system: this.system.value }));
    this.schema.addEventListener('input', () => this.schemaChanged());
    this.useSchema.addEventListener('change', () => this.schemaChanged());
    byId('schema-example', HTMLButtonElement).addEventListener('click', () => {
      this.schema.value = JSON.stringify(kExampleSchema, null, 2);
      this.useSchema.checked = true;
      this.schemaChanged();
    });
  }

  show(settings: Settings): void {
    if (this.system.value !== settings.system) this.system.value = settings.system;
    if (this.schema.value !== settings.schema) this.schema.value = settings.schema;
    this.useSchema.checked = settings.useSchema;
    for (const rule of kNumbers) {
      const field = this.numbers.get(rule.name)!;
      field.value = settings[rule.name] === null ? '' : String(settings[rule.name]);
      this.mark(field, '');
    }
    this.drawSchemaError();
  }

  private addNumber(rule: (typeof kNumbers)[number]): void {
    const id = `number-${rule.name}`;
    const field = make('input', {
      attributes: { id, type: 'text', inputmode: rule.isInteger ? 'numeric' : 'decimal', autocomplete: 'off', placeholder: 'default', 'aria-describedby': `${id}-hint` },
    });
    field.addEventListener('input', () => {
      const parsed = parseNumber(rule, field.value);
      this.mark(field, parsed.ok ? '' : parsed.message);
      if (parsed.ok) this.changed({ [rule.name]: parsed.value });
    });
    this.numbers.set(rule.name, field);
    byId('numbers', HTMLElement).append(make('div', { attributes: { class: 'number' } },
      make('label', { attributes: { for: id } }, rule.label), field,
      make('span', { attributes: { class: 'hint', id: `${id}-hint` } }, rule.hint),
      make('span', { attributes: { class: 'field-error', role: 'status' } })));
  }

  private mark(field: HTMLInputElement, problem: string): void {
    field.setAttribute('aria-invalid', String(problem !== ''));
    const place = field.parentElement?.querySelector('.field-error');
    if (place) place.textContent = problem;
  }

  private schemaChanged(): void {
    this.drawSchemaError();
    this.changed({ schema: this.schema.value, useSchema: this.useSchema.checked });
  }

  private drawSchemaError(): void {
    const parsed = this.useSchema.checked ? parseSchema(this.schema.value) : null;
    const problem = parsed === null || parsed.ok ? '' : parsed.message;
    this.schema.setAttribute('aria-invalid', String(problem !== ''));
    byId('schema-error', HTMLElement).textContent = problem;
  }
}
