// The package beside the native program: the same tensors, digests, numbers and files.
import assert from 'node:assert/strict';
import { closeSync, ftruncateSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { gzipSync } from 'node:zlib';

import { archivesIn, ballast, BallastError, data, diff, load, open, root, sourcesOf, told } from './fixtures.mjs';

const scratch = mkdtempSync(path.join(tmpdir(), 'ballast-web-'));
after(() => rmSync(scratch, { recursive: true }));
const quant = path.join(data, 'blocks/sources.safetensors');
const model = path.join(root, 'models/default/model.gptrs');

// A safetensors file of f32: name -> [shape, values].
function safetensors(tensors) {
  let end = 0;
  const header = Buffer.from(JSON.stringify(Object.fromEntries(Object.entries(tensors).map(([name, [shape, values]]) =>
    [name, { dtype: 'F32', shape, data_offsets: [end, (end += 4 * values.length)] }]))));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([size, header, ...Object.values(tensors).map(([, values]) => Buffer.from(Float32Array.from(values).buffer))]);
}

async function converted(archive, options) {
  const parts = [];
  const report = await archive.convert(options, (chunk) => void parts.push(Buffer.from(chunk)));
  return { report, bytes: Buffer.concat(parts) };
}

test('the module that reads has at most 300 KB, compressed', () => {
  const size = gzipSync(readFileSync(new URL('../dist/ballast.wasm', import.meta.url)), { level: 9 }).length;
  assert.ok(size <= 300 * 1024, `${size} bytes compressed`);
});

test('the module that writes takes the place of the first when it is asked for, and archives stay open', async () => {
  const missing = await load({ convertModule: pathToFileURL(path.join(scratch, 'nothing.wasm')) });
  const archive = await missing.open(model);
  const name = archive.tensors[0].name;
  const digest = await archive.digest(name);
  assert.ok((await archive.verify({ level: 'content' })).sound); // all that needs no writer
  assert.equal((await missing.diff(archive, archive)).equal, true);
  await assert.rejects(converted(archive, { format: 'safetensors' }));
  assert.equal(await archive.digest(name), digest, 'what could not be loaded leaves the rest as it was');
  await missing.close();
  const module = await load();
  const other = await module.open(model);
  const names = (await module.formats()).filter(({ writes }) => writes).map(({ name: format }) => format);
  assert.ok(names.includes('safetensors') && names.includes('gguf'), names.join());
  assert.equal(await other.digest(name), digest);
  await module.close();
});

test('singular values are those of known matrices, and of every slice', async () => {
  const module = await load();
  const archive = await module.open(safetensors({ m: [[2, 2], [1, 2, 3, 4]], s: [[2, 2, 2], [3, 0, 0, 1, 4, 0, 0, 2]], nan: [[1, 2], [NaN, 1]] }));
  const expectNear = (found, expected) => {
    assert.equal(found.values.length, expected.length);
    expected.forEach((value, at) => assert.ok(Math.abs(found.values[at] - value) < 1e-14 * expected[0], `${found.values} is not ${expected}`));
  };
  const whole = await archive.singularValues('m');
  assert.deepEqual([whole.rows, whole.columns], [2, 2]);
  expectNear(whole, [5.4649857042190427, 0.36596619062625782]);
  expectNear(await archive.singularValues('s', [1]), [4, 2]);
  expectNear(await archive.singularValues('s', [{}, {}, 1]), [Math.sqrt(5), 0]);
  await assert.rejects(archive.singularValues('s'), { code: 'invalid_argument' });
  await assert.rejects(archive.singularValues('nan'), { code: 'invalid_argument' });
  const weights = await module.open(model);
  const matrix = weights.tensors.find(({ shape }) => shape.length === 2 && shape[0] > 16);
  const found = (await weights.singularValues(matrix.name)).values;
  const squares = (numbers) => numbers.reduce((sum, value) => sum + value * value, 0);
  const norm = squares(Float64Array.from((await weights.values(matrix.name)).values));
  assert.ok(Math.abs(squares(found) - norm) < 1e-12 * norm, `${squares(found)} is not ${norm}`);
  await module.close();
});

test('every file of tests/data has the tensors and digests that the program finds, or is an error', async () => {
  const module = await load();
  let sound = 0;
  for (const file of archivesIn(data)) {
    const native = told('hash', file);
    const started = performance.now();
    let archive;
    try {
      archive = await module.open(sourcesOf(file));
    } catch (thrown) {
      assert.ok(thrown instanceof BallastError && thrown.code !== 'trap', `${file}: ${thrown}`);
      assert.ok(native.error, `${file}: the program opens it, here it is ${thrown.message}`);
      continue;
    }
    assert.ok(performance.now() - started < 5000, `${file} took ${performance.now() - started} ms`);
    if (native.error) { // its payloads are damaged, which opening does not look at
      // Bytes that cannot be unpacked end a digest; checksums of the container are the business of verify.
      const failed = await archive.verify({ level: 'content' }).then(({ sound }) => !sound, (thrown) => thrown instanceof BallastError && thrown.code !== 'trap');
      assert.ok(failed, `${file}: ${native.error.message}`);
    } else {
      assert.equal(archive.format, native.format, file);
      assert.deepEqual(archive.tensors.map((tensor) => tensor.name).sort(), native.tensors.map((tensor) => tensor.name).sort(), file);
      for (const tensor of native.tensors) assert.equal(await archive.digest(tensor.name), tensor.blake3, `${file}: ${tensor.name}`);
      ++sound;
    }
    await archive.close();
  }
  assert.ok(sound > 400, `${sound} files opened`);
});

test('types, shapes and what a file says of its model are those of inspect', async () => {
  for (const file of [model, quant, ...archivesIn(path.join(data, 'gguf/tiny'))]) {
    const archive = await open(file);
    const native = told('inspect', file);
    const shown = ({ name, dtype, shape, bytes, offset }) => ({ name, dtype, shape, bytes, offset });
    assert.deepEqual(archive.tensors.map(shown), native.tensors.map(shown), file);
    assert.equal(archive.producer, native.producer);
    assert.equal(archive.model?.layers, native.model?.layers);
    assert.equal(archive.model?.contextBytesPerToken, native.model?.cache_bytes_per_token);
    const texts = archive.metadata.filter(({ value }) => value.type === 'string');
    assert.deepEqual(Object.fromEntries(texts.map(({ key, value }) => [key, value.value])), native.metadata, file);
    await archive.close();
  }
});

test('statistics are those of the program, bit for bit', async () => {
  const archive = await open(quant);
  for (const native of told('stats', quant).tensors) {
    const found = await archive.stats(native.name);
    for (const key of ['count', 'min', 'max', 'mean', 'std', 'zeros', 'nan', 'histogram']) {
      assert.deepEqual(found[key], native[key] ?? (key === 'histogram' ? null : NaN), `${native.name}: ${key}`);
    }
  }
});

test('a slice of values reads its ranges and gives what show prints', async () => {
  const archive = await open(model);
  const matrix = archive.tensors.find((tensor) => tensor.shape.length === 2 && tensor.shape[0] > 16);
  const { shape, values } = await archive.values(matrix.name, [{ begin: 1, end: 5 }, { begin: 0, end: 8, step: 2 }]);
  assert.deepEqual(shape, [4, 4]);
  const native = told('show', model, `${matrix.name}[1:5, 0:8:2]`).tensors[0].values.flat();
  assert.deepEqual([...values], native.map(Math.fround));
});

test('NaN and infinity are found where they are, and an .npy file holds the values', async () => {
  const bytes = Buffer.from(new Float32Array([1, NaN, 3, Infinity]).buffer);
  const archive = await open(safetensors({ t: [[4], [1, NaN, 3, Infinity]] }));
  const found = await archive.stats('t');
  assert.deepEqual([found.nan, found.positiveInfinity, found.firstNan, found.firstInfinity], [1, 1, [1], [3]]);
  const npy = Buffer.from(await archive.toNpy('t'));
  assert.equal(npy.subarray(1, 6).toString(), 'NUMPY');
  assert.deepEqual(npy.subarray(-16), bytes);
  const { findings, sound } = await archive.verify({ level: 'content' });
  assert.deepEqual([sound, findings[0].code, findings[0].where], [false, 'non_finite', 't']);
});

test('a converted file is the one that the program writes', async () => {
  const archive = await open(model);
  for (const [format, ending] of [['safetensors', 'safetensors'], ['burnpack', 'bpk'], ['npz', 'npz']]) {
    const file = path.join(scratch, `here.${ending}`);
    const { bytes, report } = await converted(archive, { format, fileName: `here.${ending}` });
    assert.equal(report.bytes, bytes.length);
    writeFileSync(file, bytes);
    const native = path.join(scratch, `native.${ending}`);
    ballast('convert', model, native, '--to', format, '--container-only', '--quiet');
    assert.deepEqual(told('hash', file).tensors, told('hash', native).tensors);
    assert.ok(bytes.equals(readFileSync(native)), `${format}: the bytes differ`);
  }
});

test('filtered, renamed and quantised tensors are what the program reads back', async () => {
  const archive = await open(model);
  const large = archive.tensors.filter((tensor) => tensor.shape.length === 2).map((tensor) => tensor.name);
  const file = path.join(scratch, 'q8.safetensors');
  const { bytes, report } = await converted(archive, { format: 'gguf', filter: large, rename: (name) => `m.${name}`, quantise: 'q8_0',
                                                       allowLossy: true });
  writeFileSync(file, bytes);
  const native = told('inspect', file);
  assert.equal(report.tensors, large.length);
  assert.deepEqual(new Set(native.tensors.map((tensor) => tensor.name)), new Set(large.map((name) => `m.${name}`)));
  assert.ok(native.tensors.some((tensor) => tensor.dtype === 'q8_0'));
});

test('a difference names what changed and what was renamed', async () => {
  const a = await open(model);
  const { bytes } = await converted(a, { format: 'safetensors', rename: { [a.tensors[1].name]: 'elsewhere' } });
  const b = await open(bytes);
  const { entries, equal } = await diff(a, b);
  assert.equal(equal, false);
  assert.deepEqual(entries.filter(({ kind }) => kind !== 'same'),
                   [{ kind: 'renamed', nameA: a.tensors[1].name, nameB: 'elsewhere', note: '' }]);
});

test('a file of 5 GB opens after less than a megabyte', async () => {
  const file = path.join(scratch, 'large.safetensors');
  const count = 5 << 28;
  const text = JSON.stringify({ big: { dtype: 'F32', shape: [count / 1024, 1024], data_offsets: [0, count * 4] } });
  const head = Buffer.alloc(8);
  head.writeBigUInt64LE(BigInt(text.length));
  const handle = openSync(file, 'w');
  writeSync(handle, head);
  writeSync(handle, text);
  ftruncateSync(handle, 8 + text.length + count * 4);
  closeSync(handle);
  const module = await load();
  const archive = await module.open(file);
  assert.equal(archive.tensors[0].bytes, count * 4);
  await archive.values('big', [{ begin: 1_000_000, end: 1_000_100 }, { begin: 0, end: 100 }]);
  assert.ok(module.traffic.bytes < 1 << 20, `${module.traffic.bytes} bytes were read`);
  await archive.close();
});

test('a URL is read by ranges', async () => {
  const bytes = readFileSync(model);
  let sent = 0;
  const server = createServer((request, answer) => {
    const [, begin, end] = /bytes=(\d+)-(\d+)/.exec(request.headers.range).map(Number);
    const part = bytes.subarray(begin, end + 1);
    sent += part.length;
    answer.writeHead(206, { 'content-range': `bytes ${begin}-${end}/${bytes.length}`, 'content-length': part.length });
    answer.end(part);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const archive = await open(`http://127.0.0.1:${server.address().port}/model.gptrs`);
    assert.equal(archive.tensors.length, told('inspect', model).tensors.length);
    assert.ok(sent < bytes.length / 4, `${sent} bytes were sent`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('a file that changes on its server is an error, which names the file and not its address', async () => {
  const bytes = readFileSync(model);
  let status = 206;
  const server = createServer((request, answer) => {
    const [, begin, end] = /bytes=(\d+)-(\d+)/.exec(request.headers.range).map(Number);
    answer.writeHead(status, { 'content-range': `bytes ${begin}-${end}/${bytes.length}`, etag: '"1"' });
    answer.end(bytes.subarray(begin, end + 1));
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const module = await load();
    const archive = await module.open({ name: 'model.gptrs', url: `http://127.0.0.1:${server.address().port}/secret/0` });
    const name = archive.tensors.toSorted((a, b) => b.bytes - a.bytes)[0].name;
    status = 409;
    await assert.rejects(archive.stats(name), ({ code, message }) => code === 'io' && /model\.gptrs: the file changed/.test(message) && !message.includes('secret'));
    status = 500;
    await assert.rejects(archive.stats(name), ({ message }) => /model\.gptrs: the server answers 500/.test(message) && !message.includes('secret'));
    await archive.close();
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('a call can be cancelled, and a failed source is an error that the module survives', async () => {
  const module = await load();
  const bytes = readFileSync(model);
  let fails = false;
  const source = { name: 'model.gptrs', size: bytes.length, read: async (at, length) => {
    if (fails) throw new Error('the disk is gone');
    return bytes.subarray(at, at + length);
  } };
  const archive = await module.open(source);
  const name = archive.tensors.toSorted((a, b) => b.bytes - a.bytes)[0].name;
  await assert.rejects(archive.stats(name, { signal: AbortSignal.abort() }), { code: 'cancelled' });
  fails = true;
  await assert.rejects(archive.stats(name), { code: 'io' });
  fails = false;
  assert.ok((await archive.stats(name)).count > 0);
  await assert.rejects(archive.stats('nothing'), { code: 'not_found' });
  await archive.close();
  await assert.rejects(archive.stats(name), { code: 'invalid_argument' });
});
