// The compiler changes the endings of imports, but not of the address that a Worker is made from.
import { readFile, writeFile } from 'node:fs/promises';

const file = new URL('dist/worker_client.js', import.meta.url);
const text = await readFile(file, 'utf8');
const changed = text.replaceAll("'./worker.ts'", "'./worker.js'");
if (changed === text) throw new Error('dist/worker_client.js names no ./worker.ts');
await writeFile(file, changed);
