// What the tests share: the package as built, the native program, and the files of tests/data.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../../..', import.meta.url));
export const data = path.join(root, 'tests/data');
export const program = path.resolve(root, process.env.BALLAST ?? 'build/bin/ballast');
export const { load, open, diff, BallastError } = await import('../dist/index.js');

export function ballast(...args) {
  return execFileSync(program, args, { encoding: 'utf8', maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'pipe'] });
}

/** What the program says as JSON, or the error that it ends with. */
export function told(...args) {
  try {
    return JSON.parse(ballast(...args, '--json'));
  } catch (thrown) {
    if (thrown.stdout) return JSON.parse(thrown.stdout);
    throw thrown;
  }
}

const endings = /\.(safetensors|gguf|bpk|gptrs|gptrsten|npz|npy|netcl|pt|bin|index\.json)$/;

export function archivesIn(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) return archivesIn(file);
    return entry.isFile() && endings.test(entry.name) ? [file] : [];
  }).sort();
}

/** The file, and of an index or a part of a GGUF set what is beside it. */
export function sourcesOf(file) {
  const folder = path.dirname(file);
  const beside = /\.index\.json$|-of-\d+\.gguf$/.test(file)
    ? readdirSync(folder).filter((name) => name !== path.basename(file) && !name.endsWith('.index.json')) : [];
  return [file, ...beside.map((name) => path.join(folder, name))].filter((one) => statSync(one).isFile()).map(bufferSource);
}

export function bufferSource(file) {
  const bytes = readFileSync(file);
  return { name: path.basename(file), size: bytes.length, read: async (at, length) => bytes.subarray(at, at + length) };
}
