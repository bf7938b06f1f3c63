// What the page shows of files, beside what the program prints of them.

import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { checkAccessible } from '../page/accessibility.mjs';
import { LensPage } from './lens_page.mjs';
import { writeSafetensors } from './native.mjs';

// One or two of each format; the first of several files is the one that the program is given.
const kFiles = [
  'safetensors/reference.safetensors', 'safetensors/dtypes.safetensors', 'gguf/tiny/tiny_llama.q8_0.gguf', 'gguf_models/qwen3/model.gguf',
  'gguf/quant/q4_k.gguf', 'npz/dtypes.npz', 'burnpack/0.22.1/module.bpk', 'burnpack/0.19.1/shapes.bpk', 'gptrs/gpt_micro/model.gptrs',
  'netcl/mlp_basic.netcl', 'hf/gpt2_torch/pytorch_model.bin', 'torch_files/netcl/mlp_basic.pt',
];
const kFolders = { 'hf/llama_sharded': /^model.*\.(safetensors|index\.json)$/, 'gguf/small': /^split3-.*\.gguf$/ };
const kWeights = /\.(safetensors|gguf|npz|npy|bpk|gptrs|netcl|bin|pt)$/;
const kHostile = ['gguf/hostile', 'torch_files/attacks'];

function filesBelow(folder) {
  return readdirSync(folder, { recursive: true }).filter((name) => kWeights.test(name) && !/hostile|attacks|-of-\d{5}/.test(name));
}

function numberText(value) {
  if (value === null) return 'NaN';
  if (typeof value === 'string') return { inf: 'Inf', '-inf': '-Inf', nan: 'NaN' }[value.toLowerCase()] ?? value;
  return Number.isInteger(value) && Math.abs(value) < 1e9 ? String(value) : String(Number(value.toPrecision(6)));
}

// All rows of the table, in the order of the file: only those in sight are in the page, so it is scrolled through.
export async function allRows(lens) {
  await lens.show('Tensors');
  return lens.page.locator('.grid-view').evaluate(async (view) => {
    const rows = new Map();
    for (let top = 0; ; top += view.clientHeight / 2) {
      view.scrollTop = top;
      await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
      for (const row of view.querySelectorAll('.grid-row:not([hidden])')) {
        rows.set(Number(row.getAttribute('aria-rowindex')), [...row.children].slice(1, 4).map((cell) => cell.textContent));
      }
      if (top + view.clientHeight >= view.scrollHeight) break;
    }
    return [...rows].sort(([a], [b]) => a - b).map(([, row]) => row);
  });
}

async function compareWithInspect(lens, native, path, given, name) {
  const { code, text } = (await lens.page.locator('#failure .failure').isVisible()) ? await lens.failure() : {};
  assert.equal(code, undefined, `${name}: ${text}`);
  const told = native.json('inspect', path);
  const facts = await lens.facts('#overview');
  assert.ok(facts.Format.startsWith(told.format), `${name}: ${facts.Format}, not ${told.format}`);
  assert.deepEqual(await allRows(lens), told.tensors.map(({ name: tensor, dtype, shape }) => [tensor, dtype, shape.length === 0 ? 'scalar' : shape.join(' × ')]), name);
}

export const fileTests = {
  async 'files of every format have the tensors that the program lists'({ browser, server, data, native, all }) {
    const lens = await LensPage.open(browser, server.url);
    const names = all ? filesBelow(data) : kFiles;
    for (const name of names) {
      let isKnown = true;
      try {
        native.run('inspect', join(data, name), '--json');
      } catch {
        isKnown = false;
      }
      await lens.choose(join(data, name));
      if (isKnown) await compareWithInspect(lens, native, join(data, name), [name], name);
      else assert.ok(await lens.page.locator('#failure .failure').isVisible(), `${name} is refused by the program and not by the page`);
    }
    await lens.close();
  },

  async 'shards are opened as one file'({ browser, server, data, native }) {
    const lens = await LensPage.open(browser, server.url);
    for (const [folder, pattern] of Object.entries(kFolders)) {
      const names = readdirSync(join(data, folder)).filter((name) => pattern.test(name)).sort();
      await lens.choose(names.map((name) => join(data, folder, name)));
      const first = names.find((name) => name.endsWith('.index.json')) ?? names[0];
      await compareWithInspect(lens, native, join(data, folder, first), names, folder);
    }
    await lens.close();
  },

  async 'statistics are those of the program, of quantised tensors too'({ browser, server, data, native }) {
    const lens = await LensPage.open(browser, server.url);
    for (const name of ['safetensors/reference.safetensors', 'gguf/quant/q4_k.gguf', 'gguf/quant/bf16.gguf', 'gptrs/gpt_micro/model.gptrs']) {
      await lens.choose(join(data, name));
      const measured = native.json('stats', join(data, name)).tensors.filter(({ measured: is, count }) => is && count > 0);
      for (const told of measured.slice(0, 3)) {
        await lens.openTensor(told.name);
        await lens.page.locator('.statistics dl').waitFor();
        const facts = await lens.facts('.statistics');
        for (const [label, key] of [['Minimum', 'min'], ['Maximum', 'max'], ['Mean', 'mean'], ['Standard deviation', 'std']]) {
          assert.equal(facts[label], numberText(told[key]), `${name}: ${label} of ${told.name}`);
        }
        assert.equal(facts.Zeros.split(' ')[0].replaceAll(',', ''), String(told.zeros), `${name}: zeros of ${told.name}`);
        const bins = await lens.page.locator('.statistics .bars rect').count();
        assert.equal(bins, told.histogram ? 64 : 0, `${name}: histogram of ${told.name}`);
        await lens.page.keyboard.press('Escape');
      }
    }
    await lens.close();
  },

  async 'the heat map shows each value in its colour, and leads to what is not finite'({ browser, server, scratch }) {
    const path = join(scratch, 'heat.safetensors');
    writeSafetensors(path, [{ name: 'm', shape: [3, 2], values: [0, 4, -4, NaN, Infinity, 2] }]);
    const lens = await LensPage.open(browser, server.url);
    await lens.choose(path);
    await lens.openTensor('m');
    await lens.page.locator('.statistics dl').waitFor();
    await lens.page.getByLabel('What the ends of the colour scale stand for').selectOption('tensor');
    const canvas = lens.page.locator('.heat');
    await lens.page.waitForFunction(() => document.querySelector('.heat').dataset.limit === '4');
    const pixel = (row, column) => canvas.evaluate((element, [y, x]) => {
      const ratio = element.width / element.clientWidth;
      const scale = Number(element.dataset.scale) * ratio;
      return [...element.getContext('2d').getImageData((x + 0.5) * scale, (y + 0.5) * scale, 1, 1).data];
    }, [row, column]);
    assert.deepEqual(await pixel(0, 0), [247, 247, 247, 255]);
    assert.deepEqual(await pixel(0, 1), [103, 0, 31, 255]);
    assert.deepEqual(await pixel(1, 0), [5, 48, 97, 255]);
    assert.deepEqual(await pixel(1, 1), [255, 0, 255, 255]);
    assert.deepEqual(await pixel(2, 0), [255, 214, 0, 255]);
    await lens.page.getByRole('button', { name: '[1, 1]' }).waitFor();
    await lens.page.getByRole('button', { name: '[2, 0]' }).click();
    await lens.page.waitForFunction(() => document.querySelector('.heat').dataset.scale === '24');
    await lens.page.getByLabel('Values', { exact: true }).getByText('Inf').waitFor();
    await lens.close();
  },

  async 'values are copied as NumPy and downloaded as .npy'({ browser, server, data, native, scratch }) {
    const lens = await LensPage.open(browser, server.url, { permissions: ['clipboard-read', 'clipboard-write'] });
    const path = join(scratch, 'values.safetensors');
    writeSafetensors(path, [{ name: 'layer.w', shape: [2, 2], values: [0.1, -2, NaN, 1e-9] }]);
    await lens.choose(path);
    await lens.openTensor('layer.w');
    await lens.page.getByLabel('Values', { exact: true }).getByText('1e-9').waitFor();
    await lens.page.getByRole('button', { name: 'Copy as NumPy' }).click();
    await lens.page.getByText('Copied 2 by 2 values').waitFor({ state: 'attached' });
    assert.equal(await lens.page.evaluate(() => navigator.clipboard.readText()), 'np.array([[0.1, -2],\n          [np.nan, 1e-9]], dtype=np.float32)');
    const waiting = lens.page.waitForEvent('download');
    await lens.page.getByRole('button', { name: 'Download .npy' }).click();
    const download = await waiting;
    assert.equal(download.suggestedFilename(), 'layer.w.npy');
    const saved = join(scratch, 'layer.w.npy');
    await download.saveAs(saved);
    assert.deepEqual(Object.values(native.digests(saved)), Object.values(native.digests(path)));
    await lens.close();
  },

  async 'two files: what is renamed, changed and missing, as the program says'({ browser, server, scratch, native }) {
    const tensors = (change, names) => names.map((name, layer) => ({ name, shape: [2, 4], values: Array.from({ length: 8 }, (_, at) => layer + at / 8 + (layer === 2 && at === 3 ? change : 0)) }));
    const [a, b] = [join(scratch, 'a.safetensors'), join(scratch, 'b.safetensors')];
    writeSafetensors(a, [...tensors(0, ['h.0.w', 'h.1.w', 'h.2.w']), { name: 'gone', shape: [1], values: [99] }]);
    writeSafetensors(b, [...tensors(0.5, ['h.0.w', 'h.1.weight', 'h.2.w']), { name: 'new', shape: [1], values: [98] }]);
    const lens = await LensPage.open(browser, server.url);
    await lens.choose(a);
    await lens.show('Compare');
    await lens.page.locator('#second-files').setInputFiles(b);
    await lens.page.locator('.changes').waitFor();
    const { counts } = native.json('diff', a, b);
    const labels = { same: 'the same', changed: 'changed', renamed: 'renamed', only_in_a: 'only in the first', only_in_b: 'only in the second' };
    for (const [kind, label] of Object.entries(labels)) {
      assert.equal(counts[kind], 1, kind);
      await lens.page.getByRole('button', { name: `1 ${label}`, exact: true }).waitFor();
    }
    await lens.page.getByText('h.1.w → h.1.weight').waitFor();
    const changed = lens.page.getByRole('row').filter({ hasText: '1 of 8' });
    assert.match(await changed.textContent(), /changedh\.2\.w1 of 80\.5/);
    await lens.page.getByRole('heading', { name: 'Changes in h.2.w' }).waitFor();
    assert.deepEqual(await lens.page.locator('.change-detail rect').evaluateAll((bars) => bars.flatMap((bar, at) => (Number(bar.getAttribute('height')) > 0 ? [at] : []))), [60]);
    assert.deepEqual(await lens.page.locator('.charts figure').first().locator('rect').evaluateAll((bars) => bars.map((bar) => Number(bar.getAttribute('height')) > 0)), [false, false, true]);
    await lens.close();
  },

  async 'a converted file is what the program writes'({ browser, server, data, native, scratch }) {
    const lens = await LensPage.open(browser, server.url);
    const source = join(data, 'gptrs/gpt_micro/model.gptrs');
    const convert = async (fill) => {
      await lens.choose(source);
      await lens.show('Convert');
      await lens.page.getByLabel('Format', { exact: true }).waitFor();
      await fill(lens.page);
      const waiting = lens.page.waitForEvent('download');
      await lens.page.getByRole('button', { name: 'Convert and save' }).click();
      const download = await waiting;
      await lens.page.getByText(/^Wrote /).waitFor();
      const path = join(scratch, download.suggestedFilename());
      await download.saveAs(path);
      return path;
    };
    for (const format of ['safetensors', 'npz', 'burnpack']) {
      const path = await convert((page) => page.getByLabel('Format', { exact: true }).selectOption(format));
      assert.deepEqual(native.digests(path), native.digests(source), format);
    }
    const path = await convert(async (page) => {
      await page.getByLabel('Format', { exact: true }).selectOption('safetensors');
      await page.getByLabel('File name').fill('part.safetensors');
      await page.getByLabel('Keep tensors whose name matches (regular expression)').fill('weight$');
      await page.getByLabel('Find (regular expression)').fill('weight$');
      await page.getByLabel('Replace with').fill('w');
      await page.getByLabel('Floating-point tensors become').selectOption('bf16');
    });
    const expected = join(scratch, 'expected.safetensors');
    native.run('convert', source, expected, '--only', 'weight$', '--rename', 'weight$=w', '--dtype', 'bf16', '--overwrite');
    assert.deepEqual(native.digests(path), native.digests(expected));
    await lens.close();
  },

  async 'where the browser can, a conversion is streamed to disk'({ browser, server, data, native, scratch }) {
    const lens = await LensPage.open(browser, server.url);
    const source = join(data, 'safetensors/reference.safetensors');
    // A real writable file of the browser, in place of one that the user would pick.
    await lens.page.evaluate(() => {
      window.showSaveFilePicker = async ({ suggestedName }) => (await navigator.storage.getDirectory()).getFileHandle(suggestedName, { create: true });
    });
    await lens.choose(source);
    await lens.show('Convert');
    await lens.page.getByLabel('Format', { exact: true }).selectOption('npz');
    await lens.page.getByLabel('File name').fill('streamed.npz');
    await lens.page.getByRole('button', { name: 'Convert and save' }).click();
    await lens.page.getByText(/^Wrote streamed\.npz/).waitFor();
    const bytes = await lens.page.evaluate(async () => {
      const file = await (await (await navigator.storage.getDirectory()).getFileHandle('streamed.npz')).getFile();
      return [...new Uint8Array(await file.arrayBuffer())];
    });
    const path = join(scratch, 'streamed.npz');
    writeFileSync(path, Uint8Array.from(bytes));
    assert.deepEqual(native.digests(path), native.digests(source));
    await lens.close();
  },

  async 'singular values are those of known matrices, and of the two dimensions that are chosen'({ browser, server, scratch }) {
    const path = join(scratch, 'singular.safetensors');
    const product = Array.from({ length: 6 * 5 }, (_, at) => (Math.floor(at / 5) + 1) * ((at % 5) + 1)); // of two vectors
    writeSafetensors(path, [{ name: 'product', shape: [6, 5], values: product }, { name: 'stack', shape: [2, 2, 2], values: [3, 0, 0, 1, 4, 0, 0, 2] }]);
    const lens = await LensPage.open(browser, server.url);
    await lens.choose(path);
    await lens.openTensor('product');
    await lens.page.getByRole('button', { name: 'Compute 5 from 6 × 5' }).click();
    await lens.page.locator('.singular .curve').waitFor();
    const product5 = await lens.facts('.singular');
    assert.equal(product5.Largest, '70.746'); // the root of 91 * 55
    assert.equal(product5.Rank, '1 of 5');
    assert.match(product5['Sum of squares'], /^half of it in 1 value, 90 % in 1, 99 % in 1$/);
    await checkAccessible(lens.page, 'singular values');
    await lens.page.keyboard.press('Escape');
    await lens.openTensor('stack');
    await lens.page.getByRole('button', { name: 'Compute 2 from 2 × 2' }).click();
    await lens.page.locator('.singular .curve').waitFor();
    assert.deepEqual(Object.values(await lens.facts('.singular')).slice(0, 3), ['3', '1', '2 of 2']);
    await lens.page.getByLabel('Index of 0').fill('1');
    await lens.page.getByLabel('Index of 0').press('Tab');
    await lens.page.getByRole('button', { name: 'Compute 2 from 2 × 2' }).click();
    await lens.page.locator('.singular .curve').waitFor();
    assert.deepEqual(Object.values(await lens.facts('.singular')).slice(0, 3), ['4', '2', '2 of 2']);
    await lens.close();
  },

  async 'every hostile file shows a card or what the program finds in it, and the page goes on'({ browser, server, data, native }) {
    const lens = await LensPage.open(browser, server.url);
    const files = kHostile.flatMap((folder) => readdirSync(join(data, folder)).filter((name) => kWeights.test(name)).map((name) => join(data, folder, name)));
    const told = new Map(native.json('verify', ...files).files.map((one) => [one.path, one]));
    let refused = 0;
    for (const file of files) {
      await lens.choose(file);
      const { isRefused, hasProblems } = await outcome(lens, file);
      refused += isRefused;
      const { sound } = told.get(file);
      if (!sound) assert.ok(isRefused || hasProblems, `${file} is sound for the page and not for the program`);
      else if (!/-of-\d{5}/.test(file)) assert.ok(!isRefused && !hasProblems, `${file} is sound for the program and not for the page`);
    }
    assert.ok(files.length > 300 && refused > files.length / 3, `${refused} of ${files.length} are refused`);
    await checkSurvives(lens, data);
  },

  async 'damaged files of every format show a card or what is found in them, and the page goes on'({ browser, server, data, all }) {
    const lens = await LensPage.open(browser, server.url);
    const random = randomNumbers(1);
    let refused = 0;
    for (const name of kFiles) {
      const whole = readFileSync(join(data, name));
      for (let attempt = 0; attempt < (all ? 64 : 8); ++attempt) {
        const buffer = attempt % 2 === 0 ? whole.subarray(0, random(whole.length)) : flipped(whole, random);
        await lens.choose({ name: name.split('/').at(-1), mimeType: 'application/octet-stream', buffer });
        refused += (await outcome(lens, `${name}, attempt ${attempt}`)).isRefused;
      }
    }
    assert.ok(refused >= kFiles.length * 3, `only ${refused} are refused`); // all that are cut, and most of those have been
    await checkSurvives(lens, data);
  },
};

// Where one bit of the first 512 bytes is another: there are headers and no payload.
function flipped(whole, random) {
  const damaged = Buffer.from(whole);
  damaged[random(Math.min(512, damaged.length))] ^= 1 << random(8);
  return damaged;
}

// Numbers below a limit, the same in every run.
function randomNumbers(seed) {
  let state = seed;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

// What the page says of the file that was chosen: a card, or its findings.
async function outcome(lens, file) {
  if (await lens.page.locator('#failure').isVisible()) {
    const { code, text } = await lens.failure();
    assert.ok(code !== 'trap' && text.length > 20, `${file}: ${code}: ${text}`);
    return { isRefused: true, hasProblems: true };
  }
  await lens.show('Findings');
  await lens.page.locator('#findings .verdict, #findings .failure').waitFor();
  assert.equal(await lens.page.locator('#findings .failure[data-code=trap]').count(), 0, `${file}: verifying traps`);
  return { isRefused: false, hasProblems: (await lens.page.locator('#findings .verdict.bad, #findings .failure').count()) > 0 };
}

async function checkSurvives(lens, data) {
  await lens.choose(join(data, 'safetensors/reference.safetensors'));
  await lens.openTensor('layer.0.weight');
  await lens.page.locator('.statistics dl').waitFor();
  await lens.close();
}
