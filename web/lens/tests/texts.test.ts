import assert from 'node:assert/strict';
import { test } from 'node:test';

import { kInfColour, kNanColour, valueColour } from '../src/colours.ts';
import { failureOf, headline, isCancelled } from '../src/failure.ts';
import { groupFiles } from '../src/groups.ts';
import { placeOf } from '../src/layers.ts';
import { countLeaves, metadataTree, searchLeaves } from '../src/metadata.ts';
import { numpyText } from '../src/numpy.ts';
import { compileRenaming, previewOf } from '../src/renaming.ts';
import { parseList } from '../src/served.ts';
import { bytesText, shapeText, shortCount, valueText } from '../src/text.ts';

test('sizes and values are short and exact enough', () => {
  assert.deepEqual([0, 1023, 1024, 1536, 5 * 2 ** 30, 1.5 * 2 ** 40].map(bytesText), ['0 B', '1023 B', '1.00 KiB', '1.50 KiB', '5.00 GiB', '1.50 TiB']);
  assert.deepEqual([999, 1240, 89_200_000, 7e9].map(shortCount), ['999', '1.24 K', '89.2 M', '7.00 B']);
  assert.deepEqual([NaN, Infinity, -Infinity, 3, 0.1 + 0.2, 1e-12].map((value) => valueText(value)), ['NaN', 'Inf', '-Inf', '3', '0.3', '1e-12']);
  assert.deepEqual([shapeText([]), shapeText([2, 3])], ['scalar', '2 × 3']);
});

test('zero is white, signs are mirrored, and what is not finite has colours of its own', () => {
  assert.deepEqual(valueColour(0, 1), [247, 247, 247]);
  assert.deepEqual(valueColour(1, 1), [103, 0, 31]);
  assert.deepEqual(valueColour(-5, 1), [5, 48, 97]);
  assert.deepEqual(valueColour(0, 0), [247, 247, 247]);
  assert.deepEqual(valueColour(NaN, 1), kNanColour);
  assert.deepEqual(valueColour(-Infinity, 1), kInfColour);
});

test('shards belong together, their index comes first, and other files stay apart', () => {
  const names = ['m/model-00002-of-00002.safetensors', 'm/config.json', 'm/model-00001-of-00002.safetensors', 'm/model.safetensors.index.json', 'other.gguf', 'readme.md'];
  const groups = groupFiles(names);
  assert.deepEqual(groups.map(({ title }) => title), ['m/model.safetensors', 'other.gguf']);
  assert.deepEqual(groups[0]!.members.map((at) => names[at]), ['m/model.safetensors.index.json', 'm/model-00001-of-00002.safetensors', 'm/model-00002-of-00002.safetensors', 'm/config.json']);
});

test('parts without an index stand alone, except those of GGUF, which name each other', () => {
  assert.deepEqual(groupFiles(['m-00001-of-00002.safetensors', 'm-00002-of-00002.safetensors']).map(({ members }) => members), [[0], [1]]);
  assert.deepEqual(groupFiles(['m-00002-of-00002.gguf', 'm-00001-of-00002.gguf']).map(({ members }) => members), [[1, 0]]);
});

test('files without a known ending can be opened: the content decides', () => {
  assert.deepEqual(groupFiles(['weights', 'more.dat']).map(({ title }) => title), ['weights', 'more.dat']);
  assert.deepEqual(groupFiles(['run.json', 'run.npz']).map(({ members }) => members), [[1, 0]]);
});

test('names tell layers', () => {
  assert.deepEqual(placeOf('model.layers.3.mlp.up.weight'), { group: 'model.layers.3', rest: 'mlp.up.weight', layer: 3 });
  assert.deepEqual(placeOf('blk.12.attn_q.weight'), { group: 'blk.12', rest: 'attn_q.weight', layer: 12 });
  assert.deepEqual(placeOf('embed.weight'), { group: 'embed', rest: 'weight', layer: null });
  assert.deepEqual(placeOf('w'), { group: 'w', rest: 'w', layer: null });
  assert.deepEqual(placeOf('3'), { group: '3', rest: '3', layer: 3 });
});

test('metadata becomes a tree: dots are branches, JSON texts too, and everything is found', () => {
  const nodes = metadataTree({ config: { schema: 'gpt', text: '{"layers": 2, "names": ["a", null]}' }, metadata: [
    { key: 'general.name', value: { type: 'string', value: 'tiny' } }, { key: 'general.size', value: { type: 'uint', value: 2n ** 60n } },
    { key: 'tokens', value: { type: 'array', element: 'string', count: 9, values: ['<s>', 'x'], leftOut: 7 } }, { key: 'odd', value: { type: 'string', value: '{no json' } }] });
  assert.deepEqual(nodes.map(({ label }) => label), ['general', 'tokens (9 × string)', 'odd', 'config (gpt)']);
  assert.deepEqual(nodes.map(countLeaves), [2, 3, 1, 3]);
  assert.deepEqual(searchLeaves(nodes, 'TINY').map(({ path }) => path), ['general.name']);
  assert.deepEqual(searchLeaves(nodes, 'config.names').map(({ path, value }) => [path, value]), [['config.names[0]', 'a'], ['config.names[1]', 'null']]);
  assert.equal(searchLeaves(nodes, '1152921504606846976').length, 1);
});

test('a slice as NumPy text reads back as the same bits', () => {
  assert.equal(numpyText(Float32Array.of(0.1, -0, NaN, -Infinity), 2, 2, 'float32'), 'np.array([[0.1, -0.0],\n          [np.nan, -np.inf]], dtype=np.float32)');
  const odd = Math.fround(1 / 3);
  assert.equal(Math.fround(Number(/\[\[(.*?)\]\]/.exec(numpyText([odd], 1, 1, 'float32'))![1])), odd);
  assert.match(numpyText([1 / 3], 1, 1, 'float64'), /0\.3333333333333333/);
});

test('a renaming is shown before it is done, and names that would clash are counted', () => {
  const { rename } = compileRenaming('^model\\.(.*)$', 'net.$1');
  assert.equal(previewOf(['model.a', 'b'], rename!), '1 of 2 names change, such as model.a → net.a.');
  assert.match(previewOf(['a.w', 'b.w'], compileRenaming('^[ab]', 'c').rename!), /1 would have a name that another tensor has/);
  assert.match(compileRenaming('[', '').problem ?? '', /regular expression/);
  assert.deepEqual(compileRenaming('', 'x'), { rename: null, problem: null });
});

test('the list of served files is read, and a wrong one is refused', () => {
  const [file] = parseList({ files: [{ name: 'm.gguf', size: 5, url: 'files/0/1' }] }, new URL('http://127.0.0.1:8/t/files.json'));
  assert.equal(file!.url.href, 'http://127.0.0.1:8/t/files/0/1');
  assert.throws(() => parseList({}, new URL('http://x/')), /no entry "files"/);
  assert.throws(() => parseList({ files: [{ name: 'm' }] }, new URL('http://x/')), /lacks its name, size or URL/);
});

test('errors become a card with their code, message and remedies', () => {
  const failure = failureOf({ code: 'corrupt', message: 'x.gguf: tensor a ends behind the file', remedies: [{ word: 'w', text: 'Download it again.' }] });
  assert.deepEqual(failure, { code: 'corrupt', message: 'x.gguf: tensor a ends behind the file', remedies: ['Download it again.'] });
  assert.equal(headline(failure), 'This file is damaged');
  assert.equal(failureOf(new TypeError('Failed to fetch')).code, 'io');
  assert.equal(isCancelled(new DOMException('stop', 'AbortError')), true);
  assert.equal(isCancelled(new Error('x')), false);
});
