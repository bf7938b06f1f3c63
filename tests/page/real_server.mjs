// `ballast serve` on a free port, for as long as a test needs it.

import { execFileSync, spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const kStartSeconds = 120;

function freePort() {
  return new Promise((resolve) => {
    const server = createServer();
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

export async function startBallast(program, model) {
  const path = /[./]/.test(model) ? model : execFileSync(program, ['get', model], { stdio: ['ignore', 'pipe', 'inherit'] }).toString().trim();
  const port = await freePort();
  const child = spawn(program, ['serve', path, '--listen', `127.0.0.1:${port}`], { stdio: ['ignore', 'inherit', 'pipe'] });
  let said = '';
  child.stderr.on('data', (text) => { said += text; });
  const ended = new Promise((resolve) => child.on('exit', resolve));
  const url = `http://127.0.0.1:${port}/`;
  for (let tries = 0; tries < kStartSeconds * 10; ++tries) {
    if (child.exitCode !== null) throw new Error(`${program} serve ended with ${child.exitCode}:\n${said}`);
    const models = await fetch(`${url}v1/models`).catch(() => null);
    if (models?.ok) return { url, stop: () => stopChild(child, ended) };
    await sleep(100);
  }
  await stopChild(child, ended);
  throw new Error(`${program} serve did not answer within ${kStartSeconds} s:\n${said}`);
}

async function stopChild(child, ended) {
  child.kill('SIGTERM');
  const isSlow = await Promise.race([ended.then(() => false), sleep(10_000, true, { ref: false })]);
  if (isSlow) child.kill('SIGKILL');
  await ended;
}
