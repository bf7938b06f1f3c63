// How long the page takes: printed, and never a reason to fail, because it depends on the machine.

import { join } from 'node:path';

import { LensPage } from './lens_page.mjs';
import { writeSparse } from './native.mjs';

const kSize = 5 * 2 ** 30;
const kRows = 50_000;
const kScrollingFor = 3000; // milliseconds

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
  await measureScrolling(lens);
  await lens.close();
}

// Frames as the user sees them, which a busy machine delays, and the processor time that the page's own thread takes for
// each, which it does not.
async function measureScrolling(lens) {
  const devtools = await lens.context.newCDPSession(lens.page);
  await devtools.send('Performance.enable', { timeDomain: 'threadTicks' });
  const spent = async () => Object.fromEntries((await devtools.send('Performance.getMetrics')).metrics.map(({ name, value }) => [name, value]));
  const before = await spent();
  const { times, seconds } = await lens.page.locator('.grid-view').evaluate((view, length) => new Promise((resolve) => {
    const times = [];
    const begin = performance.now();
    let last = begin;
    const step = (now) => {
      times.push(now - last);
      last = now;
      view.scrollTop += 400;
      if (now - begin < length) requestAnimationFrame(step);
      else resolve({ times, seconds: (now - begin) / 1000 });
    };
    requestAnimationFrame(step);
  }), kScrollingFor);
  const after = await spent();
  const perFrame = (metric) => `${((1000 * (after[metric] - before[metric])) / times.length).toFixed(2)} ms`;
  console.log(`measured: scrolling ${kRows} rows: ${(times.length / seconds).toFixed(0)} frames per second, ` +
    `${times.filter((time) => time > 25).length} longer than 25 ms, the longest ${Math.max(...times).toFixed(0)} ms`);
  console.log(`measured: processor time of the page per frame: ${perFrame('TaskDuration')}, of it ${perFrame('ScriptDuration')} in scripts, ` +
    `${perFrame('RecalcStyleDuration')} for styles and ${perFrame('LayoutDuration')} for layout`);
}
