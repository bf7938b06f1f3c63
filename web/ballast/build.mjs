// The compiler changes the endings of imports, but not of the addresses that Workers are made from.
import { readFile, writeFile } from 'node:fs/promises';

for (const worker of ['worker', 'run_worker']) {
  const file = new URL(`dist/${worker}_client.js`, import.meta.url);
  const text = await readFile(file, 'utf8');
  const changed = text.replaceAll(`'./${worker}.ts'`, `'./${worker}.js'`);
  if (changed === text) throw new Error(`dist/${worker}_client.js names no ./${worker}.ts`);
  await writeFile(file, changed);
}
