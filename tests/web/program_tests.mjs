// The page as `ballast lens` serves it: under a secret address, with local files, by a stricter policy than the page's own.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { checkAccessible } from '../page/accessibility.mjs';
import { allRows } from './file_tests.mjs';
import { LensPage } from './lens_page.mjs';
import { writeSafetensors, writeSparse } from './native.mjs';

// Calls work(url, end); `end` stops the program as Ctrl-C does.
async function withProgram(native, args, work) {
  const program = spawn(native.program, ['lens', ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(program, 'exit');
  const end = async () => {
    program.kill('SIGINT');
    assert.deepEqual(await ended, [0, null], 'exit code and signal of ballast lens');
  };
  try {
    const lines = createInterface(program.stdout);
    const [url] = await Promise.race([once(lines, 'line'), ended.then(([code]) => { throw new Error(`ballast lens ended with ${code}`); })]);
    await work(url, end);
  } finally {
    program.kill('SIGKILL'); // no more than that, whatever a test has left
    await ended;
  }
}

async function workersLeftBehind(page) {
  return page.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length);
}

export const programTests = {
  async '`ballast lens FILE` opens the page with the file, and reads only ranges of it'({ browser, native, scratch }) {
    const path = join(scratch, 'large.safetensors');
    writeSparse(path, [{ name: 'first', shape: [8192, 8192] }, { name: 'second', shape: [4, 4] }]);
    await withProgram(native, [path, '-q'], async (url, end) => {
      const lens = await LensPage.open(browser, 'about:blank');
      const answers = [];
      lens.context.on('response', (answer) => answers.push(answer));
      await lens.page.goto(url);
      await lens.page.getByRole('heading', { name: 'large.safetensors', level: 1 }).waitFor();
      const { tensors } = native.json('inspect', path);
      assert.deepEqual(await allRows(lens), tensors.map(({ name, dtype, shape }) => [name, dtype, shape.join(' × ')]));
      await lens.openTensor('first');
      await lens.page.locator('.heat:not([aria-busy])[data-scale]').waitFor();
      const parts = answers.filter((answer) => answer.url().startsWith(`${url}files/0/`));
      const lengths = parts.map((answer) => {
        assert.equal(answer.status(), 206);
        return Number(answer.headers()['content-length']);
      });
      const read = lengths.reduce((sum, length) => sum + length, 0);
      assert.ok(read > 4096 && read < 32 << 20, `${read} bytes in ${parts.length} ranges`);
      assert.ok(answers.every((answer) => answer.url().startsWith(url)), 'something else was fetched');
      await end();
      await lens.close();
    });
  },

  async '`ballast lens` without a file shows no field for a URL, which its policy refuses, and leaves no worker behind'({ browser, native, data }) {
    // Not one of the names of this machine that the page knows itself.
    await withProgram(native, ['-q', '--listen', '127.0.0.2:0'], async (url, end) => {
      const lens = await LensPage.open(browser, url);
      assert.ok(await lens.page.locator('#url-form').isHidden());
      await lens.choose(join(data, 'gguf/quant/q4_k.gguf'));
      assert.ok(await lens.page.getByRole('tab', { name: 'Overview' }).isVisible());
      assert.equal(await workersLeftBehind(lens.page), 0);
      await end();
      await lens.close();
    });
  },

  async 'two files that `ballast lens` was given are compared with each other'({ browser, native, scratch }) {
    const [before, after] = [join(scratch, 'before.safetensors'), join(scratch, 'after.safetensors')];
    writeSafetensors(before, [{ name: 'w', shape: [2], values: [1, 2] }, { name: 'same', shape: [1], values: [5] }]);
    writeSafetensors(after, [{ name: 'w', shape: [2], values: [1, 3] }, { name: 'same', shape: [1], values: [5] }]);
    await withProgram(native, [before, after, '-q'], async (url, end) => {
      const lens = await LensPage.open(browser, url);
      await lens.page.getByRole('button', { name: 'before.safetensors' }).click();
      await lens.show('Compare');
      await lens.page.getByLabel('Second file', { exact: true }).selectOption('after.safetensors');
      await lens.page.getByRole('button', { name: '1 changed', exact: true }).waitFor();
      await lens.page.getByRole('button', { name: '1 the same', exact: true }).waitFor();
      await checkAccessible(lens.page, 'a comparison of two files that were given');
      await end();
      await lens.close();
    });
  },

  async 'a file that changes while `ballast lens` serves it is an error, and a reload shows its new state'({ browser, native, scratch }) {
    const path = join(scratch, 'training.safetensors');
    const write = (names) => writeSafetensors(path, names.map((name) => ({ name, shape: [64, 1024], values: Array.from({ length: 65536 }, (_, at) => at) })));
    write(['a']);
    await withProgram(native, [path, '-q'], async (url, end) => {
      const lens = await LensPage.open(browser, url);
      await lens.page.getByRole('heading', { name: 'training.safetensors', level: 1 }).waitFor();
      write(['a', 'b']);
      await lens.openTensor('a');
      await lens.page.getByText('training.safetensors: the file changed on the server').first().waitFor();
      assert.deepEqual(lens.problems.filter((text) => !text.includes('409')), []); // a browser may report what its Worker was refused
      lens.problems = [];
      await lens.page.reload();
      await lens.page.getByRole('heading', { name: 'training.safetensors', level: 1 }).waitFor();
      assert.deepEqual((await allRows(lens)).map(([name]) => name), ['a', 'b']);
      await end();
      await lens.close();
    });
  },
};
