// Drives the chat page in Chromium: against a stub with scripted answers, and against `ballast serve` with a real model.
//
// Usage: node tests/page/page_test.mjs [--ballast PATH [--model MODEL] | --server URL] [--screenshots DIR] [--only TEXT]
//   --ballast PATH      starts PATH serve MODEL (smollm2) on a free port, after PATH get MODEL
//   --server URL        a server that is running
//   --screenshots DIR   writes chat-light.png, chat-dark.png and chat-small.png, of the real server
//   --only TEXT         the tests whose names contain TEXT
// Without a server only the tests with the stub run.

import { mkdirSync } from 'node:fs';
import { parseArgs } from 'node:util';

import { launch } from './browser.mjs';
import { realTests } from './real_tests.mjs';
import { startBallast } from './real_server.mjs';
import { takeScreenshots } from './screenshots.mjs';
import { stubPageTests } from './stub_page_tests.mjs';
import { stubTests } from './stub_tests.mjs';
import { StubServer } from './stub_server.mjs';

const { values: options } = parseArgs({
  options: {
    ballast: { type: 'string' }, model: { type: 'string', default: 'smollm2' }, server: { type: 'string' }, screenshots: { type: 'string' },
    only: { type: 'string', default: '' },
  },
});

let failures = 0;
let count = 0;

async function runAll(kind, tests, run) {
  for (const [name, test] of Object.entries(tests)) {
    if (!name.includes(options.only)) continue;
    const begin = performance.now();
    ++count;
    try {
      await run(test);
      console.log(`ok      ${kind}: ${name} (${((performance.now() - begin) / 1000).toFixed(1)} s)`);
    } catch (error) {
      ++failures;
      console.log(`FAILED  ${kind}: ${name}\n${error.stack ?? error}`);
    }
  }
}

async function withStub(work) {
  const stub = await new StubServer().start();
  try {
    await work(stub);
  } finally {
    stub.stop();
  }
}

const browser = await launch();
let real = null;
try {
  await runAll('stub', { ...stubTests, ...stubPageTests }, (test) => withStub((stub) => test(browser, stub)));
  if (options.ballast !== undefined) real = await startBallast(options.ballast, options.model);
  const url = real?.url ?? options.server;
  if (url !== undefined) await runAll('server', realTests, (test) => test(browser, url.endsWith('/') ? url : `${url}/`));
  if (options.screenshots !== undefined) {
    if (url === undefined) throw new Error('--screenshots needs a real answer: give --ballast or --server.');
    mkdirSync(options.screenshots, { recursive: true });
    await takeScreenshots(browser, url, options.screenshots);
  }
} finally {
  await browser.close();
  await real?.stop();
}
console.log(`page_test: ${count - failures} of ${count} passed`);
process.exitCode = failures > 0 || count === 0 ? 1 : 0;
