// How long the page takes: printed, and never a reason to fail, because it depends on the machine.

import { join } from 'node:path';

import { LensPage } from './lens_page.mjs';
import { writeSparse } from './native.mjs';

const kSize = 5 * 2 ** 30;
const kRows = 50_000;

export async function measure({ browser, server, scratch }) {
  const large = join(scratch, '5gb.safetensors');
  const layers = 80;
  writeSparse(large, Array.from({ length: layers }, (_, at) => ({ name: `model.layers.${at}.w`, shape: [kSize / layers / 4 / 1024, 1024] })));
  const many = join(scratch, 'many.safetensors');
  writeSparse(many, Array.from({ length: kRows }, (_, at) => ({ name: `layers.${Math.floor(at / 10)}.weight_${at % 10}`, shape: [4, 4] })));
  const lens = await LensPage.open(browser, server.url);
  await lens.choose(large); // the module is loaded
  for (const [what, path] of [['5 GiB in 80 tensors', large], [`${kRows} tensors`, many]]) {
    await lens.page.locator('#open-other').click();
    const shown = lens.page.evaluate(() => new Promise((resolve) => {
      let begin = 0;
      document.getElementById('files').addEventListener('change', () => { begin = performance.now(); }, { once: true, capture: true });
      const look = () => (begin > 0 && !document.getElementById('work').hidden ? resolve(performance.now() - begin) : requestAnimationFrame(look));
      look();
    }));
    await lens.page.locator('#files').setInputFiles(path);
    console.log(`measured: ${what}: shown ${(await shown).toFixed(0)} ms after the file was chosen`);
  }
  await lens.show('Tensors');
  const { frames, slow, longest } = await lens.page.locator('.grid-view').evaluate((view) => new Promise((resolve) => {
    const times = [];
    const begin = performance.now();
    let before = begin;
    const step = (now) => {
      times.push(now - before);
      before = now;
      view.scrollTop += 400;
      if (now - begin < 3000) requestAnimationFrame(step);
      else resolve({ frames: times.length / 3, slow: times.filter((time) => time > 25).length, longest: Math.max(...times) });
    };
    requestAnimationFrame(step);
  }));
  console.log(`measured: scrolling ${kRows} rows: ${frames.toFixed(0)} frames per second, ${slow} longer than 25 ms, the longest ${longest.toFixed(0)} ms`);
  await lens.close();
}
