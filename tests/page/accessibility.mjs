// Basic checks of accessibility, in the page: every control has a name, ids are unique, texts have enough contrast.

import assert from 'node:assert/strict';

function findings() {
  const found = [];
  const isShown = (element) => element.checkVisibility?.({ checkVisibilityCSS: true }) ?? true;
  const nameOf = (element) => {
    const labelled = (element.getAttribute('aria-labelledby') ?? '').split(' ').map((id) => document.getElementById(id)?.textContent ?? '').join('');
    const labels = [...(element.labels ?? [])].map((label) => label.textContent).join('');
    return [element.getAttribute('aria-label'), labelled, labels, element.textContent].map((text) => (text ?? '').trim()).find((text) => text !== '') ?? '';
  };
  for (const element of document.querySelectorAll('button, input:not([hidden]), select, textarea, a[href], [role=log], [role=region], [role=group], nav, aside, dialog')) {
    if (nameOf(element) === '') found.push(`without a name: ${element.outerHTML.slice(0, 120)}`);
  }
  const ids = [...document.querySelectorAll('[id]')].map((element) => element.id);
  for (const id of new Set(ids.filter((name, index) => ids.indexOf(name) !== index))) found.push(`two elements have the id ${id}`);
  for (const attribute of ['aria-controls', 'aria-labelledby', 'aria-describedby', 'for']) {
    for (const element of document.querySelectorAll(`[${attribute}]`)) {
      for (const id of element.getAttribute(attribute).split(' ')) if (document.getElementById(id) === null) found.push(`${attribute}="${id}" leads nowhere`);
    }
  }
  for (const image of document.images) if (!image.hasAttribute('alt')) found.push('an image without alt');
  if (document.querySelectorAll('main').length !== 1 || document.querySelectorAll('h1').length !== 1) found.push('there must be one main and one h1');
  if (document.documentElement.lang === '') found.push('the page has no language');
  if (document.querySelector('[role=status]') === null || document.querySelector('[role=alert]') === null) found.push('no live regions');

  const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
  const rgbOf = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = ([r, g, b]) => [r, g, b].map((value) => value / 255).map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, index) => sum + value * [0.2126, 0.7152, 0.0722][index], 0);
  const backgroundOf = (element) => {
    for (let at = element; at !== null; at = at.parentElement) {
      const color = rgbOf(getComputedStyle(at).backgroundColor);
      if (color[3] === 255) return color;
    }
    return rgbOf(getComputedStyle(document.body).backgroundColor);
  };
  for (const element of document.querySelectorAll('body *')) {
    const hasText = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim() !== '');
    if (!hasText || !isShown(element) || element.closest('svg, noscript, :disabled, .skip, .unseen, option') || getComputedStyle(element).opacity !== '1') continue;
    const [light, dark] = [luminance(rgbOf(getComputedStyle(element).color)), luminance(backgroundOf(element))].sort((a, b) => b - a);
    const contrast = (light + 0.05) / (dark + 0.05);
    if (contrast < 4.5) found.push(`contrast ${contrast.toFixed(2)}: ${element.outerHTML.slice(0, 100)}`);
  }
  return found;
}

export async function checkAccessible(page, where) {
  assert.deepEqual(await page.evaluate(findings), [], where);
}
