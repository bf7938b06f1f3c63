// Drives Ballast Lens in Chromium and compares what it shows with what the program prints.
//
// Usage: node tests/web/lens_test.mjs --ballast PATH [--page DIR] [--all] [--measure] [--screenshots DIR] [--only TEXT]
//   --ballast PATH     the native program
//   --page DIR         the built page (apps/ballast/lens_page)
//   --all              every file of tests/data, and more damaged ones; otherwise one or two of each format
//   --measure          also prints how long a file of 5 GB takes to open, and how smoothly 50,000 rows scroll
//   --screenshots DIR  writes lens-*.png
//   --only TEXT        the tests whose names contain TEXT

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

import { launch } from '../page/browser.mjs';
import { fileTests } from './file_tests.mjs';
import { measure } from './measure.mjs';
import { Native } from './native.mjs';
import { pageTests } from './page_tests.mjs';
import { programTests } from './program_tests.mjs';
import { takeScreenshots } from './screenshots.mjs';
import { StaticServer } from './static_server.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const { values: options } = parseArgs({
  options: {
    ballast: { type: 'string' }, page: { type: 'string', default: join(root, 'apps/ballast/lens_page') }, all: { type: 'boolean', default: false },
    measure: { type: 'boolean', default: false }, screenshots: { type: 'string' }, only: { type: 'string', default: '' },
  },
});
if (options.ballast === undefined) throw new Error('lens_test: say where the program is: --ballast PATH');

let failures = 0;
let count = 0;
const scratch = mkdtempSync(join(tmpdir(), 'ballast-lens-'));
const browser = await launch();

async function withServer(work) {
  const server = await new StaticServer(options.page).start();
  try {
    await work({ browser, server, scratch, root, data: join(root, 'tests/data'), all: options.all, native: new Native(resolve(options.ballast)) });
  } finally {
    server.stop();
  }
}

try {
  for (const [name, test] of Object.entries({ ...fileTests, ...pageTests, ...programTests })) {
    if (!name.includes(options.only)) continue;
    const begin = performance.now();
    ++count;
    try {
      await withServer(test);
      console.log(`ok      ${name} (${((performance.now() - begin) / 1000).toFixed(1)} s)`);
    } catch (error) {
      ++failures;
      console.log(`FAILED  ${name}\n${error.stack ?? error}`);
    }
  }
  if (options.measure) await withServer(measure);
  if (options.screenshots !== undefined) {
    mkdirSync(options.screenshots, { recursive: true });
    await withServer((setting) => takeScreenshots(setting, options.screenshots));
  }
} finally {
  await browser.close();
  rmSync(scratch, { recursive: true, force: true });
}
console.log(`lens_test: ${count - failures} of ${count} passed`);
process.exitCode = failures > 0 || (count === 0 && !options.measure && options.screenshots === undefined) ? 1 : 0;
