import assert from 'node:assert/strict';
import { test } from 'node:test';

import { MarkdownView } from '../src/markdown/render.ts';
import { highlight } from '../src/markdown/highlight.ts';
import { safeLink } from '../src/markdown/safe_link.ts';
import { FakeNode, kFakeDocument } from './fake_document.ts';

function render(text: string): FakeNode {
  const root = new FakeNode('div', '');
  new MarkdownView(kFakeDocument, root as unknown as HTMLElement).show(text);
  return root;
}

function outline(text: string): string {
  return render(text).childNodes.map((node) => node.outline).join('');
}

const kAllowedTags = new Set(['', 'div', 'p', 'h3', 'h4', 'h5', 'h6', 'pre', 'code', 'span', 'button', 'blockquote', 'ul', 'ol', 'li',
  'input', 'table', 'thead', 'tbody', 'tr', 'th', 'td', 'hr', 'br', 'em', 'strong', 'del', 'a']);
const kAllowedAttributes = new Set(['href', 'rel', 'target', 'class', 'type', 'tabindex', 'role', 'aria-label', 'disabled', 'checked', 'start']);

function assertHarmless(root: FakeNode): void {
  for (const node of root.all()) {
    assert.ok(kAllowedTags.has(node.tag), `element <${node.tag}>`);
    for (const [name, value] of node.attributes) {
      assert.ok(kAllowedAttributes.has(name), `attribute ${name}`);
      if (name === 'href') assert.match(value, /^(https?:\/\/|mailto:)/);
    }
    if (node.tag === 'a') assert.equal(node.attributes.get('rel'), 'noopener noreferrer');
  }
}

function depthOf(node: FakeNode): number {
  return 1 + Math.max(0, ...node.childNodes.map(depthOf));
}

test('HTML in an answer stays text', () => {
  const hostile = [
    '<script>alert(1)</script>', '<img src=x onerror=alert(1)>', '<svg/onload=alert(1)>', '<a href="javascript:alert(1)">x</a>',
    '<iframe src="//evil.example"></iframe>', '<style>*{display:none}</style>', '<b>not bold</b>', '<!-- hidden -->',
    '</div></div><h1>out</h1>', '<math><mtext></mtext><img src=x>', '&lt;script&gt;',
  ];
  for (const text of hostile) {
    for (const place of [text, `# ${text}`, `- ${text}`, `> ${text}`, `**${text}**`, `| a |\n|---|\n| ${text} |`, `\`\`\`html\n${text}\n\`\`\``]) {
      const root = render(place);
      assertHarmless(root);
      const shown = text.replaceAll('&lt;', '<').replaceAll('&gt;', '>');
      assert.ok(root.textContent.includes(place.startsWith('```') ? text : shown) || text.includes('*'), `${place} -> ${root.textContent}`);
    }
  }
});

test('only http, https and mailto become links', () => {
  for (const address of ['javascript:alert(1)', 'JaVaScRiPt:alert(1)', 'data:text/html,x', 'vbscript:x', 'file:///etc/passwd', '/relative',
    '//host', 'blob:x', ' javascript:alert(1)', 'java\nscript:alert(1)', '\u0001javascript:alert(1)', 'http:/\\evil', 'https:', '']) {
    assert.equal(safeLink(address), null, address);
    assert.equal(render(`[x](${address})`).find('a').length, 0, address);
    assert.equal(render(`[x](<${address}>)`).find('a').length, 0, address);
    assert.equal(render(`<${address}>`).find('a').length, 0, address);
  }
  assert.equal(safeLink('https://' + 'a'.repeat(3000)), null);
  const link = render('[x](https://example.org/a_b_c "title")').find('a')[0]!;
  assert.equal(link.attributes.get('href'), 'https://example.org/a_b_c');
  assert.equal(link.attributes.get('target'), '_blank');
  assert.equal(render('<mailto:a@example.org>').find('a').length, 1);
});

test('images are shown as links', () => {
  const root = render('![a picture](https://example.org/a.png)');
  assert.equal(root.find('img').length, 0);
  assert.equal(root.find('a')[0]!.textContent, 'a picture');
});

test('bare addresses become links without the punctuation after them', () => {
  const root = render('See https://example.org/x(y), (https://example.org/z). Not xhttps://example.org');
  assert.deepEqual(root.find('a').map((a) => a.attributes.get('href')), ['https://example.org/x(y)', 'https://example.org/z']);
});

test('emphasis, code and breaks', () => {
  assert.equal(outline('*a* **b** ***c*** ~~d~~ `e*f*`'),
    '<p><em>[a]</em>[ ]<strong>[b]</strong>[ ]<em><strong>[c]</strong></em>[ ]<del>[d]</del>[ ]<code>[e*f*]</code></p>');
  assert.equal(outline('snake_case_name and 2 * 3 * 4 and \\*no\\*'), '<p>[snake_case_name and 2 * 3 * 4 and *no*]</p>');
  assert.equal(outline('**open and `open'), '<p>[**open and `open]</p>');
  assert.equal(outline('one  \ntwo\nthree'), '<p>[one]<br></br>[two\nthree]</p>');
  assert.equal(outline('**a [link](https://x.example/) b**'), '<p><strong>[a ]<a>[link]</a>[ b]</strong></p>');
  assert.equal(outline('a[0] and [b] and [c](d)'), '<p>[a[0] and [b] and [c](d)]</p>');
  assert.equal(outline('``a`b``'), '<p><code>[a`b]</code></p>');
});

test('blocks', () => {
  assert.equal(outline('# One\n## Two ##\ntext'), '<h3>[One]</h3><h4>[Two]</h4><p>[text]</p>');
  assert.equal(outline('> a\n> > b'), '<blockquote><p>[a]</p><blockquote><p>[b]</p></blockquote></blockquote>');
  assert.equal(outline('a\n\n---\n\nb'), '<p>[a]</p><hr></hr><p>[b]</p>');
  assert.equal(outline('1. a\n2. b\n   - c\n\n3. d'), '<ol><li>[a]</li><li>[b]<ul><li>[c]</li></ul></li><li>[d]</li></ol>');
  assert.equal(render('7. a').find('ol')[0]!.attributes.get('start'), '7');
  assert.equal(outline('- a\n  b\n\ntext'), '<ul><li>[a\nb]</li></ul><p>[text]</p>');
  assert.equal(outline('- a\n\n  b'), '<ul><li><p>[a]</p><p>[b]</p></li></ul>');
  assert.equal(render('- [x] a\n- [ ] b').find('input').length, 2);
});

test('code keeps its blank lines inside a list', () => {
  const root = render('1. a\n\n   ```py\n   x\n\n\n   y\n   ```\n2. b');
  assert.equal(root.find('pre')[0]!.textContent, 'x\n\n\ny');
  assert.equal(root.find('li').length, 2);
});

test('tables', () => {
  const root = render('| a | b |\n|:--|--:|\n| 1 | `x|y` |\n| 2 |');
  assert.equal(root.find('td').map((cell) => cell.textContent).join(','), '1,x|y,2,');
  assert.equal(root.find('th')[1]!.attributes.get('class'), 'align-right');
  assert.equal(outline('a | b\nno table'), '<p>[a | b\nno table]</p>');
});

test('a fence that is not closed yet is code to the end', () => {
  const text = 'Look:\n\n```python\nprint("<b>")\n\n# more';
  for (let length = text.indexOf('python') + 6; length <= text.length; ++length) {
    const root = render(text.slice(0, length));
    assertHarmless(root);
    assert.equal(root.find('pre').length, 1, JSON.stringify(text.slice(0, length)));
  }
  assert.equal(render(text).find('pre')[0]!.textContent, 'print("<b>")\n\n# more');
  assert.equal(render('````\n```\ninner\n```\n````').find('pre')[0]!.textContent, '```\ninner\n```');
});

test('every beginning of an answer can be shown, and ends as the whole does', () => {
  const text = '# T\n\n- **a** `b`\n  1. [c](https://x.example/)\n\n> q\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```js\nlet x = `1`;\n```\nend *e*';
  const root = new FakeNode('div', '');
  const view = new MarkdownView(kFakeDocument, root as unknown as HTMLElement);
  for (let length = 0; length <= text.length; ++length) {
    view.show(text.slice(0, length));
    assertHarmless(root);
    assert.equal(root.outline, `<div>${outline(text.slice(0, length))}</div>`, `at ${length}`);
  }
});

test('a block that does not change keeps its element', () => {
  const root = new FakeNode('div', '');
  const view = new MarkdownView(kFakeDocument, root as unknown as HTMLElement);
  view.show('first\n\nsec');
  const [first, second] = root.childNodes;
  view.show('first\n\nsecond');
  assert.equal(root.childNodes[0], first);
  assert.notEqual(root.childNodes[1], second);
});

test('deep nesting is bounded', () => {
  const count = 5000;
  for (const text of ['> '.repeat(count) + 'x', '- '.repeat(count) + 'x', '1. '.repeat(count) + 'x', '*a '.repeat(count) + 'a*'.repeat(count),
    '**'.repeat(count) + 'x' + '**'.repeat(count), '*_'.repeat(count) + 'x' + '_*'.repeat(count), '['.repeat(count) + 'x' + ']'.repeat(count),
    '[a'.repeat(count) + '](https://x.example/)'.repeat(count)]) {
    const root = render(text);
    assert.ok(depthOf(root) < 100, `${text.slice(0, 10)}: ${depthOf(root)}`);
    assertHarmless(root);
  }
});

test('hostile texts take time in proportion to their length', () => {
  const size = 100_000;
  const pieces = ['*a ', '_a_', '**', '[', '](', '[](', '`', '`` ` ', '<', '&amp', '~~', 'https://', '![', '\\', 'a\n', '> ', '- ', '|', '|-', '*a `x` ',
    '- a\n\n', '\n', '[a](https://x.example/(', '```\n', '#', '* ', ' ', '\t', '1. a\n  ', '***a** ', "'\\", '"', '/*', '/', '<a '];
  for (const piece of pieces) {
    const text = piece.repeat(size / piece.length);
    for (const place of [text, `\`\`\`js\n${text}`, `| a |\n|---|\n| ${text}`]) {
      const begin = process.cpuUsage(); // not the clock: other programs may be running
      render(place);
      const took = process.cpuUsage(begin).user / 1000;
      assert.ok(took < 2000, `${JSON.stringify(piece)}: ${took.toFixed(0)} ms`);
    }
  }
});

test('random texts are shown whole and harmless', () => {
  let state = 12345;
  const random = (limit: number): number => {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    return (state >>> 8) % limit;
  };
  const alphabet = ['*', '_', '`', '[', ']', '(', ')', '!', '<', '>', '#', '-', '|', '\n', ' ', 'a', 'b', '~', '\\', '&lt;', 'https://x.y', '1.', ':', '"', '😀'];
  const letters = (shown: string): string => (shown.match(/[ab]/g) ?? []).join('');
  for (let round = 0; round < 3000; ++round) {
    const text = Array.from({ length: random(60) }, () => alphabet[random(alphabet.length)]).join('');
    const root = render(text);
    assertHarmless(root);
    // Fences hide the rest of their first line, links their address, tables what has no column.
    if (!/```|~~~|\]\(|\|/.test(text)) assert.equal(letters(root.textContent), letters(text), JSON.stringify(text));
  }
});

test('highlighting loses no character and knows the common languages', () => {
  const samples: [string, string, string, string][] = [
    ['python', 'def f(x):  # why\n    return "a\\"b"', 'keyword', 'def'],
    ['cpp', '#include <a>\nint x = 0x1F; /* c */', 'number', '0x1F'],
    ['ts', 'const a = `x\ny`; // c', 'string', '`x\ny`'],
    ['bash', 'for f in *; do echo "${#f}"; done # all', 'comment', '# all'],
    ['json', '{"a": [1.5e3, true]}', 'keyword', 'true'],
    ['html', '<div class="x">a</div><!-- c -->', 'keyword', 'div'],
    ['sql', 'SELECT a FROM b -- c', 'keyword', 'SELECT'],
    ['rust', "fn f<'a>(x: &'a str) {}", 'keyword', 'fn'],
    ['diff', '--- a\n+++ b\n-old\n+new', 'added', '\n+new'],
    ['go', 'func main() { x := `a` }', 'string', '`a`'],
  ];
  for (const [language, code, kind, text] of samples) {
    const tokens = highlight(code, language);
    assert.equal(tokens.map((token) => token.text).join(''), code);
    assert.ok(tokens.some((token) => token.kind === kind && token.text === text), `${language}: ${JSON.stringify(tokens)}`);
  }
  for (const name of ['', 'nothing', 'constructor', '__proto__']) assert.deepEqual(highlight('x = 1', name), [{ kind: 'plain', text: 'x = 1' }]);
});
