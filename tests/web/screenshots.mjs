// The pictures of docs/lens.md.

import { join } from 'node:path';

import { LensPage } from './lens_page.mjs';

async function shoot({ browser, server, root }, file, options, act) {
  const lens = await LensPage.open(browser, server.url, { deviceScaleFactor: 1.5, ...options });
  await lens.choose(join(root, 'models/default/model.gptrs'));
  await act(lens);
  await lens.page.screenshot({ path: file });
  await lens.close();
}

async function openMatrix(lens) {
  await lens.show('Tensors');
  const name = await lens.page.locator('.grid-tall .grid-row:not([hidden])').evaluateAll((rows) =>
    rows.map((row) => [...row.children].slice(1, 4).map((cell) => cell.textContent)).find(([, , shape]) => shape.includes(' × '))[0]);
  await lens.openTensor(name);
  await lens.page.locator('.statistics dl').waitFor();
  await lens.page.locator('.heat:not([aria-busy])[data-scale]').waitFor();
}

export async function takeScreenshots(setting, folder) {
  const wide = { viewport: { width: 1360, height: 860 } };
  await shoot(setting, join(folder, 'lens-overview.png'), wide, () => Promise.resolve());
  await shoot(setting, join(folder, 'lens-tensor.png'), { ...wide, colorScheme: 'dark' }, openMatrix);
}
