// The second module beside the native program: the same tokens and the same numbers.
import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { gzipSync } from 'node:zlib';

import { archivesIn, bufferSource, data, root, told } from './fixtures.mjs';

const { BallastError, loadRunner, openSequential, openTextModel } = await import('../dist/run.js');
const scratch = mkdtempSync(path.join(tmpdir(), 'ballast-run-'));
after(() => rmSync(scratch, { recursive: true }));

const filesIn = (folder) => readdirSync(folder).map((name) => path.join(folder, name)).filter((file) => statSync(file).isFile());
const bundled = path.join(root, 'models/default');
const digits = path.join(root, 'models/digits');
const families = [
  [bundled],
  [path.join(data, 'gptrs/ministral_yarn/model.gptrs'), path.join(data, 'gptrs/ministral_yarn/tokenizer.json')],
  ...archivesIn(path.join(data, 'gguf/tiny')).filter((file) => file.endsWith('.gguf')).map((file) => [file]),
].map(([at, ...beside]) => ({ at, files: [...(statSync(at).isDirectory() ? filesIn(at) : [at]), ...beside].map(bufferSource) }));

const close = (a, b, tolerance) => Math.abs(a - b) <= tolerance * Math.max(1, Math.abs(b));
const ids = (tokens) => tokens.map(({ id }) => id);

test('the module has at most a megabyte, compressed', () => {
  const size = gzipSync(readFileSync(new URL('../dist/ballast-run.wasm', import.meta.url)), { level: 9 }).length;
  assert.ok(size <= 1 << 20, `${size} bytes compressed`);
});

test('every family writes the tokens that the program writes', async () => {
  for (const { at, files } of families) {
    const native = told('generate', at, '--prompt', 'a b c', '--max-tokens', '12', '--greedy', '--threads', '1');
    const model = await openTextModel(files);
    const shown = [];
    const { tokens, text } = await model.generate('a b c', { maxTokens: 12, onToken: (token) => shown.push(token) });
    assert.deepEqual(ids(model.tokens('a b c')), native.prompt_tokens, at);
    assert.deepEqual(ids(tokens), native.tokens, at);
    assert.equal(text, native.text, at);
    assert.deepEqual(shown, tokens);
    model.close();
  }
});

// The recorded models of Hugging Face have no tokenizers: words that mean nothing do as well.
function wordsTokenizer(count) {
  const file = path.join(scratch, `words-${count}.json`);
  const vocab = Object.fromEntries(Array.from({ length: count }, (_, id) => [`w${id}`, id]));
  writeFileSync(file, JSON.stringify({
    version: '1.0', truncation: null, padding: null, added_tokens: [], normalizer: null, pre_tokenizer: { type: 'WhitespaceSplit' },
    post_processor: null, decoder: null, model: { type: 'WordLevel', vocab, unk_token: 'w0' },
  }));
  return file;
}

test('folders of Hugging Face write the tokens that the program writes, and show their layers', async () => {
  let compared = 0;
  for (const name of readdirSync(path.join(data, 'hf'))) {
    const folder = path.join(data, 'hf', name);
    if (!statSync(folder).isDirectory()) continue;
    const config = JSON.parse(readFileSync(path.join(folder, 'config.json'), 'utf8'));
    if (config.model_type === 'bert') continue;
    const words = wordsTokenizer((config.text_config ?? config).vocab_size);
    const native = told('generate', folder, '--tokenizer', words, '--prompt', 'w1 w5 w9 w4', '--max-tokens', '10', '--greedy', '--threads', '1');
    const files = filesIn(folder).filter((file) => !path.basename(file).startsWith('expected')).map(bufferSource);
    const model = await openTextModel([...files, { ...bufferSource(words), name: 'tokenizer.json' }]);
    const { tokens, text } = await model.generate('w1 w5 w9 w4', { maxTokens: 10 });
    assert.deepEqual(ids(tokens), native.tokens, name);
    assert.equal(text, native.text, name);
    assert.equal(model.info.family, config.model_type, name);
    const { next, lens, attention } = await model.inspect('w1 w5 w9 w4');
    assert.equal(lens.at(-1).at(-1)[0].token.id, next[0].token.id, name);
    const weights = attention(model.info.layers - 1, model.info.heads - 1);
    for (let row = 0; row < 4; ++row) assert.ok(close(weights.subarray(row * 4, row * 4 + 4).reduce((all, weight) => all + weight, 0), 1, 1e-5), name);
    model.close();
    ++compared;
  }
  assert.ok(compared >= 20, `${compared} folders were compared`);
});

test('the bundled model writes a page as the program does', async () => {
  const prompt = 'It was a dark night, and the ship';
  const native = told('generate', bundled, '--prompt', prompt, '--max-tokens', '128', '--greedy', '--threads', '1');
  const model = await openTextModel(families[0].files);
  const { tokens, text, secondsPrompt, secondsDecode } = await model.generate(prompt, { maxTokens: 128 });
  assert.deepEqual(ids(tokens), native.tokens);
  assert.equal(text, native.text);
  assert.ok(secondsPrompt > 0 && secondsDecode > 0);
  assert.equal(model.tokens(prompt).map((token) => token.text).join(''), prompt);
});

test('a seed draws the tokens that the program draws, and another others', async () => {
  const model = await openTextModel(families[0].files);
  const drawn = async (seed) => ids((await model.generate('The', { maxTokens: 24, temperature: 0.9, topK: 40, topP: 0.95, seed })).tokens);
  const native = told('generate', bundled, '--prompt', 'The', '--max-tokens', '24', '--temperature', '0.9', '--top-k', '40', '--top-p',
                      '0.95', '--seed', '7', '--threads', '1');
  assert.deepEqual(await drawn(7), native.tokens);
  assert.notDeepEqual(await drawn(8), native.tokens);
});

test('what comes next has the probabilities that the program gives', async () => {
  const prompt = 'The two young';
  const model = await openTextModel(families[0].files);
  const { next } = await model.inspect(prompt, { top: model.info.vocabulary });
  assert.equal(next.length, model.info.vocabulary);
  const sum = next.reduce((all, { probability }) => all + probability, 0);
  assert.ok(close(sum, 1, 1e-6), `the probabilities have the sum ${sum}`);
  const native = told('forward', bundled, '--text', prompt, '--top', '5', '--threads', '1').rows.at(-1).top;
  for (const [place, { index, log_probability: log }] of native.entries()) {
    assert.equal(next[place].token.id, index);
    assert.ok(close(next[place].probability, Math.exp(log), 1e-4), `${next[place].probability} for ${Math.exp(log)}`);
  }
});

test('the lens ends in what comes next, and each query looks back and gives away what it has', async () => {
  for (const { at, files } of families) {
    const model = await openTextModel(files);
    const { tokens, next, lens, attention } = await model.inspect('a b c a b');
    const n = tokens.length;
    assert.equal(lens.length, model.info.layers, at);
    for (const layer of lens) assert.deepEqual(layer.map((best) => best.length), Array(n).fill(5));
    const last = lens.at(-1).at(-1);
    assert.deepEqual(last.map(({ token }) => token.id), next.slice(0, 5).map(({ token }) => token.id), at);
    for (const [place, { probability }] of last.entries()) assert.ok(close(probability, next[place].probability, 1e-5), at);
    for (let layer = 0; layer < model.info.layers; ++layer) {
      for (let head = 0; head < model.info.heads; ++head) {
        const weights = attention(layer, head);
        assert.equal(weights.length, n * n);
        for (let row = 0; row < n; ++row) {
          const seen = weights.subarray(row * n, (row + 1) * n);
          assert.ok(close(seen.reduce((all, weight) => all + weight, 0), 1, 1e-5), `${at}: row ${row}`);
          assert.ok(seen.every((weight, column) => weight >= 0 && (column <= row || weight === 0)), `${at}: row ${row} looks ahead`);
        }
      }
    }
    assert.throws(() => attention(model.info.layers, 0), BallastError);
    assert.throws(() => attention(0, model.info.heads), BallastError);
    model.close();
  }
});

test('what a head looks at is what its layer computes with', async () => {
  // The first token has only itself to look at; the same token again looks at both alike but for their places.
  const model = await openTextModel(families[0].files);
  const { tokens, attention } = await model.inspect('the the the the');
  assert.ok(tokens.length >= 3);
  const maps = Array.from({ length: model.info.heads }, (_, head) => attention(0, head));
  for (const map of maps) assert.equal(map[0], 1);
  const differ = maps.some((map) => maps[0].some((weight, place) => Math.abs(weight - map[place]) > 1e-3));
  assert.ok(differ, 'all heads look at the same');
});

// As safetensors, a batch of one-channel images.
function imageFile(name, images) {
  const shape = [images.length, 1, 8, 8];
  const header = JSON.stringify({ input: { dtype: 'F32', shape, data_offsets: [0, images.length * 256] } });
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(header.length));
  const file = path.join(scratch, name);
  writeFileSync(file, Buffer.concat([size, Buffer.from(header), ...images.map((image) => Buffer.from(image.buffer))]));
  return file;
}

test('the digits are classified as the program does, layer by layer', async () => {
  const images = Array.from({ length: 8 }, (_, seed) => Float32Array.from({ length: 64 }, (_, at) => Math.abs(Math.sin(seed + at * 0.7))));
  const input = imageFile('images.safetensors', images);
  for (const name of ['digits.bpk', 'digits-q8_0.gguf']) {
    const file = path.join(digits, name);
    const { rows } = told('forward', file, '--input', input, '--top', '10', '--threads', '1');
    const model = await openSequential([bufferSource(file)]);
    assert.deepEqual(model.inputShape, [1, 8, 8]);
    assert.equal(model.layers[0].kind, 'Conv2d');
    assert.deepEqual(model.layers.at(-1).shape, [10]);
    for (const [place, image] of images.entries()) {
      const { output, activations } = model.run(image);
      for (const { index, logit } of rows[place].top) assert.ok(close(output[index], logit, 1e-4), `${name}: ${output[index]} for ${logit}`);
      assert.deepEqual(activations.map(({ name: layer, shape }) => [layer, shape]), model.layers.map(({ name: layer, shape }) => [layer, shape]));
      for (const { shape, values } of activations) assert.equal(values.length, shape.reduce((product, size) => product * size, 1));
      const relu = model.layers.findIndex(({ kind }) => kind === 'ReLU');
      assert.deepEqual(activations[relu].values, activations[relu - 1].values.map((value) => Math.max(0, value)));
      assert.deepEqual(activations.at(-1).values, output);
    }
    assert.throws(() => model.run(new Float32Array(63)), { code: 'invalid_argument' });
    model.close();
    assert.throws(() => model.run(images[0]), { code: 'invalid_argument' });
  }
});

test('a failed call leaves the model as it was, and a closed one says so', async () => {
  const model = await openTextModel(families[0].files);
  await assert.rejects(model.generate('a', { maxTokens: 4, signal: AbortSignal.abort() }), { code: 'cancelled' });
  const stop = new AbortController();
  await assert.rejects(model.generate('a', { maxTokens: 100000, signal: stop.signal, onToken: () => stop.abort() }), { name: 'BallastError' });
  await assert.rejects(model.generate('a', { maxTokens: 4, temperature: -1 }), { code: 'invalid_argument' });
  await assert.rejects(model.inspect('word '.repeat(2000)), { code: 'invalid_argument' });
  assert.equal((await model.generate('a', { maxTokens: 4 })).tokens.length, 4);
  model.close();
  await assert.rejects(model.generate('a', { maxTokens: 4 }), { code: 'invalid_argument' });
});

// Whether it opens or not, it answers: with a text, with numbers, or with an error of the library.
async function answers(runner, open, source, what) {
  try {
    const model = await runner[open]([source]);
    if (open === 'openTextModel') {
      await model.generate('a b', { maxTokens: 2 });
      await model.inspect('a b');
    } else {
      model.run(new Float32Array(model.inputShape.reduce((product, size) => product * size, 1)));
    }
    model.close();
    return true;
  } catch (thrown) {
    assert.ok(thrown instanceof BallastError && thrown.code !== 'trap', `${open} of ${what}: ${thrown}`);
    return false;
  }
}

test('hostile files are errors, never traps', async () => {
  const runner = await loadRunner();
  let refused = 0;
  for (const file of archivesIn(path.join(data, 'gguf/hostile'))) {
    for (const open of ['openTextModel', 'openSequential']) refused += await answers(runner, open, bufferSource(file), file) ? 0 : 1;
  }
  assert.ok(refused > 100, `${refused} were refused`);
  await assert.rejects(runner.openTextModel([]), { code: 'invalid_argument' });
  await assert.rejects(runner.openTextModel([bufferSource(path.join(digits, 'digits.bpk'))]), { code: 'invalid_argument' });
  await assert.rejects(runner.openSequential(families[0].files), { code: 'invalid_argument' });
});

test('files that were cut or changed anywhere are errors or run', async () => {
  const runner = await loadRunner();
  let refused = 0;
  for (const [file, open] of [[path.join(data, 'gguf/tiny/tiny_llama.q8_0.gguf'), 'openTextModel'], [path.join(digits, 'digits.bpk'), 'openSequential']]) {
    const whole = readFileSync(file);
    const given = (bytes) => ({ name: path.basename(file), size: bytes.length, read: async (at, length) => bytes.subarray(at, at + length) });
    for (let part = 0; part < 16; ++part) {
      const cut = whole.subarray(0, Math.floor(whole.length * part / 16));
      refused += await answers(runner, open, given(cut), `${file}, ${cut.length} bytes of it`) ? 0 : 1;
    }
    for (let change = 0; change < 64; ++change) {
      const bytes = Buffer.from(whole);
      const at = change * 2654435761 % 4096; // where headers and metadata are
      bytes[at] ^= 1 << change % 8;
      refused += await answers(runner, open, given(bytes), `${file} with byte ${at} changed`) ? 0 : 1;
    }
  }
  assert.ok(refused >= 32, `${refused} were refused`);
});
