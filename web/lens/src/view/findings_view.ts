// What `verify` finds: the structure at once, every value on request.

import type { Archive, Finding, VerifyReport } from '../engine.ts';
import { failureOf, isCancelled } from '../failure.ts';
import { bytesText, countText, plural } from '../text.ts';
import { box, button, make } from './element.ts';
import { failureCard } from './failure_card.ts';

const kMostShown = 500;

export function findingsView(archive: Archive, work: AbortSignal): HTMLElement {
  const place = box('findings-list');
  const progress = make('progress', { attributes: { max: '1', value: '0', 'aria-label': 'Verification' } });
  const run = async (level: 'structure' | 'content'): Promise<void> => {
    deep.disabled = true;
    place.replaceChildren(progress);
    try {
      const report = await archive.verify({ level, signal: work, onProgress: (done, total) => { progress.value = total > 0 ? done / total : 1; } });
      place.replaceChildren(verdict(report, level), list(report.findings));
    } catch (error) {
      if (!isCancelled(error)) place.replaceChildren(failureCard(failureOf(error)));
    }
    deep.disabled = false;
  };
  const deep = button(`Check every value (${bytesText(archive.bytes)})`, () => void run('content'));
  void run('structure');
  return box('findings-view', box('toolbar', deep), place);
}

function verdict({ sound, findings }: VerifyReport, level: string): HTMLElement {
  const what = level === 'content' ? 'structure and values' : 'structure';
  const text = findings.length === 0 ? `Nothing to report: the ${what} of this file ${level === 'content' ? 'are' : 'is'} in order.`
    : sound ? `Sound, with ${plural(findings.length, 'note')}.` : `${plural(findings.filter(({ level: kind }) => kind !== 'note').length, 'problem')} found.`;
  return make('p', { attributes: { class: sound ? 'verdict good' : 'verdict bad', role: 'status' } }, text);
}

function list(findings: readonly Finding[]): HTMLElement {
  return make('ul', { attributes: { class: 'findings' } }, ...findings.slice(0, kMostShown).map(({ level, code, where, text, offset }) =>
    make('li', { attributes: { class: `finding ${level}` } }, make('span', { attributes: { class: 'level' } }, level),
      box('finding-text', make('p', {}, text), make('p', { attributes: { class: 'hint' } }, [code, where, offset > 0 ? `byte ${countText(offset)}` : ''].filter((part) => part !== '').join(' · '))))),
    findings.length > kMostShown ? make('li', {}, `${countText(findings.length - kMostShown)} more`) : null);
}
