// What the page does around files: keys, screen readers, narrow screens, servers, and no connection at all.

import assert from 'node:assert/strict';
import { statSync } from 'node:fs';
import { join } from 'node:path';

import { checkAccessible } from '../page/accessibility.mjs';
import { LensPage } from './lens_page.mjs';
import { writeSafetensors, writeSparse } from './native.mjs';

const kTabs = ['Overview', 'Tensors', 'Metadata', 'Findings', 'Compare', 'Convert'];

export const pageTests = {
  async 'every view has labels and contrast, in light and dark and on a narrow screen'({ browser, server, data }) {
    for (const options of [{}, { colorScheme: 'dark' }, { viewport: { width: 390, height: 844 } }]) {
      const where = JSON.stringify(options);
      const lens = await LensPage.open(browser, server.url, options);
      await checkAccessible(lens.page, `start ${where}`);
      await lens.choose(join(data, 'gguf/hostile/split_part_is_garbage-00002-of-00002.gguf'));
      await checkAccessible(lens.page, `refused ${where}`);
      await lens.choose(join(data, 'gguf_models/qwen3/model.gguf'));
      for (const tab of kTabs) {
        await lens.show(tab);
        await lens.page.locator('[role=tabpanel]:not([hidden]) > *').first().waitFor();
        await checkAccessible(lens.page, `${tab} ${where}`);
        const [seen, wide] = await lens.page.evaluate(() => [document.documentElement.clientWidth, document.documentElement.scrollWidth]);
        assert.ok(wide <= seen, `${tab} ${where} is ${wide} pixels wide`);
      }
      const { name } = await lens.page.evaluate(() => ({ name: document.querySelector('.leaf .link')?.textContent }));
      await lens.openTensor(name);
      await lens.page.locator('.statistics dl').waitFor();
      await checkAccessible(lens.page, `tensor ${where}`);
      await lens.close();
    }
  },

  async 'the keyboard reaches everything: tabs, rows, a tensor and its heat map'({ browser, server, data }) {
    const lens = await LensPage.open(browser, server.url);
    await lens.choose(join(data, 'gptrs/gpt_micro/model.gptrs'));
    const { keyboard } = lens.page;
    await lens.page.getByRole('tab', { name: 'Overview' }).focus();
    await keyboard.press('ArrowRight');
    assert.match(await lens.page.evaluate(() => document.activeElement.textContent), /^Tensors/);
    await keyboard.press('End');
    assert.equal(await lens.page.evaluate(() => document.activeElement.textContent), 'Convert');
    await keyboard.press('Home');
    await keyboard.press('ArrowRight');
    await lens.page.locator('.grid-view').focus();
    await keyboard.press('ArrowDown');
    await keyboard.press('Space');
    await keyboard.press('ArrowDown');
    await keyboard.press('Shift+Space');
    assert.match(await lens.page.locator('#tensor-totals').textContent(), /^2 tensors selected/);
    await keyboard.press('Control+a');
    const count = await lens.page.locator('.grid').getAttribute('aria-rowcount');
    assert.match(await lens.page.locator('#tensor-totals').textContent(), new RegExp(`^${Number(count) - 1} tensors selected`));
    await keyboard.press('End');
    const last = `row-${Number(count) - 2}`;
    await lens.page.locator(`.grid-view[aria-activedescendant="${last}"]`).waitFor(); // rows are drawn with the next frame
    const name = await lens.page.locator(`#${last} > :nth-child(2)`).textContent();
    await keyboard.press('Enter');
    await lens.page.getByRole('heading', { name, exact: true, level: 2 }).waitFor();
    await lens.page.locator('.heat').focus();
    await lens.page.locator('.heat:not([aria-busy])[data-scale]').waitFor();
    const scale = async () => Number(await lens.page.locator('.heat').getAttribute('data-scale'));
    const before = await scale();
    await keyboard.press('+');
    const zoomed = await scale();
    assert.ok(zoomed >= before);
    await keyboard.press('0');
    assert.equal(await scale(), before);
    await keyboard.press('Escape');
    assert.ok(await lens.page.locator('#tensor').isHidden());
    assert.equal(await lens.page.evaluate(() => document.activeElement.className), 'grid-view', 'the focus goes back to the table');
    await lens.close();
  },

  async 'rows are sorted and filtered, and what is no regular expression is said'({ browser, server, scratch }) {
    const path = join(scratch, 'rows.safetensors');
    writeSafetensors(path, ['h.10.w', 'h.2.w', 'b'].map((name, at) => ({ name, shape: [at + 1], values: new Array(at + 1).fill(at) })));
    const lens = await LensPage.open(browser, server.url);
    await lens.choose(path);
    await lens.show('Tensors');
    const names = () => lens.page.locator('.grid-tall .grid-row:not([hidden])').evaluateAll((rows) =>
      rows.sort((a, b) => a.ariaRowIndex - b.ariaRowIndex).map((row) => row.children[1].textContent));
    await lens.page.waitForFunction(() => document.querySelectorAll('.grid-tall .grid-row:not([hidden])').length === 3);
    const sorted = async (label, expected) => {
      await lens.page.getByRole('button', { name: label }).click();
      await lens.page.waitForFunction(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(true)))));
      assert.deepEqual(await names(), expected, label);
    };
    await sorted(/^Name/, ['b', 'h.2.w', 'h.10.w']);
    await sorted(/^Name/, ['h.10.w', 'h.2.w', 'b']);
    await sorted(/^Size/, ['h.10.w', 'h.2.w', 'b']);
    const filter = lens.page.getByLabel('Filter by name (regular expression)');
    await filter.fill('^h');
    await lens.page.getByText('2 of 3 tensors · 3 elements · 12 B').waitFor();
    await filter.fill('(');
    await lens.page.getByText(/Invalid regular expression/).waitFor();
    await lens.page.getByText('3 tensors · 6 elements · 24 B').waitFor();
    await lens.close();
  },

  async 'metadata is a tree that can be searched'({ browser, server, data, native }) {
    const lens = await LensPage.open(browser, server.url);
    const path = join(data, 'gguf_models/qwen3/model.gguf');
    await lens.choose(path);
    await lens.show('Metadata');
    const { metadata } = native.json('inspect', path);
    const architecture = metadata['general.architecture'];
    const told = typeof architecture === 'string' ? architecture : architecture.value;
    await lens.page.getByLabel('Search keys and values').fill('general.architecture');
    await lens.page.getByText('1 entry found').waitFor();
    assert.equal(await lens.page.locator('.metadata-tree .leaf').textContent(), `general.architecture${told}`);
    await lens.page.getByLabel('Search keys and values').fill('no such thing');
    await lens.page.getByText('Nothing found').waitFor();
    await lens.close();
  },

  async 'findings are those of verify'({ browser, server, data, scratch, native }) {
    const path = join(scratch, 'nan.safetensors');
    writeSafetensors(path, [{ name: 'w', shape: [2], values: [NaN, 1] }]);
    const lens = await LensPage.open(browser, server.url);
    await lens.choose(join(data, 'safetensors/reference.safetensors'));
    await lens.show('Findings');
    await lens.page.locator('.verdict.good').waitFor();
    await lens.choose(path);
    await lens.show('Findings');
    await lens.page.locator('.verdict').waitFor();
    await lens.page.getByRole('button', { name: /^Check every value/ }).click();
    await lens.page.locator('.finding').first().waitFor();
    assert.match(await lens.page.locator('.finding').first().textContent(), /w/);
    await lens.close();
  },

  async 'a URL is read by ranges, and nothing else is fetched'({ browser, server, scratch }) {
    const path = join(scratch, 'large.safetensors');
    writeSparse(path, [{ name: 'first', shape: [8192, 8192] }, { name: 'second', shape: [4, 4] }]);
    server.files.set('/large.safetensors', path);
    const lens = await LensPage.open(browser, server.url);
    await lens.page.getByLabel('Or read from a URL').fill(`${server.url}large.safetensors`);
    await lens.page.getByRole('button', { name: 'Open', exact: true }).click();
    await lens.page.locator('#work').waitFor();
    const read = () => server.requests.filter(({ path: asked }) => asked === '/large.safetensors').reduce((sum, { range }) => {
      assert.notEqual(range, null, 'a request without a range');
      const [, begin, end] = /^bytes=(\d+)-(\d+)$/.exec(range);
      return sum + Number(end) - Number(begin) + 1;
    }, 0);
    assert.ok(read() < 1 << 20, `${read()} bytes read to open`);
    await lens.openTensor('first');
    await lens.page.locator('.heat:not([aria-busy])[data-scale]').waitFor();
    await lens.page.getByText(/every \d+th value is shown/).waitFor();
    assert.ok(read() < statSync(path).size / 8, `${read()} of ${statSync(path).size} bytes read for a heat map`);
    await lens.page.getByRole('button', { name: /^Compute from 256/ }).waitFor(); // too large to be read unasked
    const own = new Set(['/', '/app.js', '/style.css', '/icon.svg', '/large.safetensors']);
    assert.deepEqual(server.requests.map(({ path: asked }) => asked).filter((asked) => !own.has(asked) && !/^\/(worker.*\.js|ballast\.wasm)$/.test(asked)), []);
    await lens.close();
  },

  async 'files that a server lists are opened, and the user chooses among several'({ browser, server, data }) {
    const path = join(data, 'safetensors/reference.safetensors');
    server.files.set('/files/0/v', path);
    server.list = [{ name: 'reference.safetensors', size: statSync(path).size, url: 'files/0/v' }];
    let lens = await LensPage.open(browser, server.url);
    await lens.page.getByRole('heading', { name: 'reference.safetensors' }).waitFor();
    assert.ok(await lens.page.locator('#url-form').isHidden());
    await lens.close();
    const other = join(data, 'gguf/quant/q4_k.gguf');
    server.files.set('/files/1/v', other);
    server.list.push({ name: 'q4_k.gguf', size: statSync(other).size, url: 'files/1/v' });
    lens = await LensPage.open(browser, server.url);
    await lens.page.getByRole('button', { name: 'q4_k.gguf' }).click();
    await lens.page.getByRole('heading', { name: 'q4_k.gguf' }).waitFor();
    await lens.page.getByRole('button', { name: 'Open another' }).click();
    await lens.page.getByRole('button', { name: 'reference.safetensors' }).waitFor();
    await lens.close();
  },

  async 'the page works without a connection once it was loaded'({ browser, server, data }) {
    const lens = await LensPage.open(browser, `http://lens.localhost:${server.port}/`);
    await lens.page.waitForFunction(async () => (await navigator.serviceWorker.ready).active?.state === 'activated');
    server.stop();
    await lens.page.reload();
    await lens.choose(join(data, 'safetensors/reference.safetensors'));
    assert.ok(await lens.page.getByRole('tab', { name: 'Overview' }).isVisible());
    await lens.close();
  },
};
