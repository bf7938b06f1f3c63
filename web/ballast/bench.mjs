// How fast the second module runs a model beside the native program on one thread, in turns, and whether both write the
// same: node bench.mjs MODEL... (files or folders); BALLAST=path names the program, TOKENS=n how many are generated.
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { openTextModel } from './dist/run.js';

const root = fileURLToPath(new URL('../..', import.meta.url));
const program = path.resolve(root, process.env.BALLAST ?? 'build/bin/ballast');
const maxTokens = Number(process.env.TOKENS ?? 128);
const prompt = process.env.PROMPT ?? 'w1 w2 w3 w4';
const rounds = 3;

function sourcesOf(model) {
  const files = statSync(model).isDirectory() ? readdirSync(model).map((name) => path.join(model, name)) : [model];
  return files.filter((file) => statSync(file).isFile()).map((file) => new File([readFileSync(file)], path.basename(file)));
}

function native(model) {
  const args = ['generate', model, '--prompt', prompt, '--max-tokens', String(maxTokens), '--greedy', '--ignore-eos', '--threads', '1', '--json', '--quiet'];
  const { tokens, timings } = JSON.parse(execFileSync(program, args, { encoding: 'utf8', maxBuffer: 1 << 26 }));
  return { tokens, rate: timings.decode_tokens_per_s };
}

async function here(model) {
  const { tokens, secondsDecode } = await model.generate(prompt, { maxTokens });
  return { tokens: tokens.map(({ id }) => id), rate: (tokens.length - 1) / secondsDecode };
}

for (const at of process.argv.slice(2)) {
  const model = await openTextModel(sourcesOf(at));
  const best = { native: 0, module: 0 };
  let same = true;
  for (let round = 0; round < rounds; ++round) {
    const [a, b] = [native(at), await here(model)];
    best.native = Math.max(best.native, a.rate);
    best.module = Math.max(best.module, b.rate);
    same = same && b.tokens.every((id, place) => id === a.tokens[place]);
  }
  const shown = [`native ${best.native.toFixed(1)} tokens/s`, `module ${best.module.toFixed(1)}`, `${(best.module / best.native).toFixed(2)} x`];
  console.log(`${path.relative(root, path.resolve(at))}: ${shown.join(', ')}, ${same ? 'the same tokens' : 'OTHER TOKENS'}`);
  model.close();
}
