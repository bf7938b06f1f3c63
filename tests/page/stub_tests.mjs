// What the page does with answers that are scripted: conversations and settings.

import assert from 'node:assert/strict';

import { checkAccessible } from './accessibility.mjs';
import { ChatPage } from './browser.mjs';

const kHostile = '<script>window.hacked=1</script> <img src=x onerror="window.hacked=1"> <iframe src="javascript:window.hacked=1"></iframe> '
  + '<svg onload="window.hacked=1"> [link](javascript:window.hacked=1) [data](data:text/html,x) <a href="#" onclick="window.hacked=1">a</a> '
  + '![picture](https://evil.example/p.png) [good](https://example.org/) <style>*{display:none}</style>';

export const stubTests = {
  async 'an answer streams, and its counts and speed are shown'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    await chat.send('slow, please');
    await chat.page.locator('.message.assistant.streaming').waitFor();
    const lengths = new Set();
    for (let i = 0; i < 8; ++i) {
      lengths.add((await chat.lastAnswer().textContent()).length);
      await chat.page.waitForTimeout(100);
    }
    assert.ok(lengths.size > 3, `lengths ${[...lengths]}`);
    await chat.page.getByRole('button', { name: 'Stop' }).click();
    await chat.ended();
    // A speed needs pieces that do not all come at once, however busy the browser is.
    let release;
    stub.lastPiece = new Promise((resolve) => { release = resolve; });
    await chat.send('echo: **bold** and `code`');
    await chat.lastAnswer().locator('strong').waitFor();
    release();
    await chat.ended();
    assert.equal(await chat.lastAnswer().locator('strong').textContent(), 'bold');
    assert.match(await chat.answers().last().locator('.stats').textContent(), /stub · 23 prompt tokens \(16 cached\) · 3 answer tokens · [\d.]+ tokens\/s · first token after/);
    assert.equal(await chat.page.locator('#context').textContent(), '26 of 4,096 context tokens used');
    const body = stub.requests.at(-1);
    assert.deepEqual(body.stream_options, { include_usage: true });
    assert.equal(body.model, 'stub');
    assert.deepEqual([...stub.paths].sort(), ['/', '/app.js', '/icon.svg', '/props', '/style.css', '/v1/chat/completions', '/v1/models']);
    await chat.close();
  },

  async 'stop closes the connection and keeps the part that came'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    await chat.send('slow');
    await chat.page.waitForFunction(() => (document.querySelector('.message.assistant .body')?.textContent.length ?? 0) > 20);
    await chat.page.keyboard.press('Escape');
    await chat.ended();
    assert.match(await chat.lastAnswer().textContent(), /^word word/);
    assert.equal(await chat.answers().last().locator('.note').textContent(), 'Stopped.');
    await chat.page.waitForTimeout(300);
    assert.equal(stub.disconnects, 1);
    await chat.close();
  },

  async 'hostile Markdown stays text'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    const outside = [];
    chat.page.on('request', (request) => {
      if (!request.url().startsWith(stub.url)) outside.push(request.url());
    });
    await chat.ask(`echo: ${kHostile}`);
    await chat.ask(`echo: # ${kHostile}\n\n- ${kHostile}\n\n\`\`\`html\n${kHostile}`);
    assert.ok((await chat.lastAnswer().textContent()).includes('<script>window.hacked=1</script>'));
    assert.equal(await chat.page.locator('#thread :is(script, iframe, img, style, object, embed, form)').count(), 0);
    assert.equal(await chat.page.locator('#thread [onerror], #thread [onload], #thread [onclick], #thread [style]').count(), 0);
    const links = await chat.page.locator('#thread a').evaluateAll((all) => all.map((a) => [a.href, a.rel]));
    assert.ok(links.length > 0);
    for (const [href, rel] of links) {
      assert.match(href, /^https:\/\/(example\.org|evil\.example)\//);
      assert.equal(rel, 'noopener noreferrer');
    }
    assert.equal(await chat.page.evaluate(() => window.hacked), undefined);
    assert.deepEqual(outside, [], 'requests to elsewhere');
    await chat.close();
  },

  async 'the policy blocks inline scripts and styles'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    chat.expected.push(/Content Security Policy/, /violates the following/);
    await chat.page.evaluate(() => {
      const script = document.createElement('script');
      script.textContent = 'window.hacked = 1';
      document.body.append(script);
    });
    assert.equal(await chat.page.evaluate(() => window.hacked), undefined);
    assert.ok(chat.problems.length > 0);
    await chat.close();
  },

  async 'a reload keeps conversations, also in the middle of an answer'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    await chat.ask('first question');
    await chat.send('slow');
    await chat.page.waitForFunction(() => [...document.querySelectorAll('.message.assistant .body')].at(-1).textContent.length > 20);
    await chat.reload();
    assert.equal(await chat.questions().first().textContent(), 'first question');
    assert.match(await chat.lastAnswer().textContent(), /^word word/);
    assert.match(await chat.answers().last().locator('.note.failed').textContent(), /closed before the answer was complete/);
    assert.equal(await chat.page.locator('#conversations li').count(), 1);
    await chat.close();
  },

  async 'conversations can be begun, renamed and deleted'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    await chat.ask('one');
    await chat.page.keyboard.press('Alt+n');
    await chat.ask('two');
    assert.deepEqual(await chat.page.locator('#conversations .open').allTextContents(), ['two', 'one']);
    await chat.page.locator('#conversations li').last().hover(); // rename and delete appear
    await chat.page.getByRole('button', { name: 'Rename “one”' }).click();
    await chat.page.getByLabel('Title of the conversation').fill('<b>first</b>');
    await chat.page.getByLabel('Title of the conversation').press('Enter');
    await chat.page.getByRole('button', { name: '<b>first</b>', exact: true }).click();
    assert.equal(await chat.page.locator('h1').textContent(), '<b>first</b>');
    assert.equal(await chat.questions().textContent(), 'one');
    await chat.reload();
    assert.equal(await chat.page.locator('h1').textContent(), '<b>first</b>');
    await chat.page.locator('#conversations li').last().hover();
    await chat.page.getByRole('button', { name: 'Delete “<b>first</b>”' }).click();
    await chat.page.getByRole('button', { name: 'Delete', exact: true }).click();
    assert.deepEqual(await chat.page.locator('#conversations .open').allTextContents(), ['two']);
    await chat.reload();
    assert.deepEqual(await chat.page.locator('#conversations .open').allTextContents(), ['two']);
    await chat.close();
  },

  async 'a conversation that is deleted while it is answered stays deleted'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    await chat.send('slow');
    await chat.page.locator('#conversations li').hover();
    await chat.page.getByRole('button', { name: 'Delete “slow”' }).click();
    await chat.page.getByRole('button', { name: 'Delete', exact: true }).click();
    await chat.ended();
    await chat.page.waitForTimeout(300);
    assert.equal(stub.disconnects, 1);
    await chat.reload();
    assert.equal(await chat.page.locator('#conversations li').count(), 0);
    assert.equal(await chat.questions().count(), 0);
    await chat.close();
  },

  async 'editing branches, regenerating too, and the arrows lead back'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    await chat.ask('one');
    await chat.ask('two');
    await chat.page.locator('.message.user').first().getByRole('button', { name: 'Edit' }).click();
    await chat.page.getByLabel('Edit the message').fill('uno');
    await chat.page.getByRole('button', { name: 'Send as a new branch' }).click();
    await chat.ended();
    assert.deepEqual(await chat.questions().allTextContents(), ['uno']);
    assert.deepEqual(stub.requests.at(-1).messages.map((message) => message.content), ['uno']);
    await chat.page.getByRole('button', { name: 'Regenerate' }).click();
    await chat.ended();
    assert.equal(await chat.answers().last().locator('.place').textContent(), '2 / 2');
    await chat.page.locator('.message.user').getByRole('button', { name: 'Earlier version' }).click();
    assert.deepEqual(await chat.questions().allTextContents(), ['one', 'two']);
    assert.equal(await chat.page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Later version');
    await chat.reload();
    assert.deepEqual(await chat.questions().allTextContents(), ['one', 'two']);
    await chat.page.locator('.message.assistant').last().getByRole('button', { name: 'Edit' }).click();
    await chat.page.getByLabel('Edit the message').fill('what I would have said');
    await chat.page.getByRole('button', { name: 'Save as a new branch' }).click();
    assert.equal(await chat.lastAnswer().textContent(), 'what I would have said');
    await chat.ask('three');
    assert.equal(stub.requests.at(-1).messages.at(-2).content, 'what I would have said');
    await chat.close();
  },

  async 'an edit that cannot be sent yet stays in its editor'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    await chat.send('slow');
    await chat.page.locator('.message.assistant.streaming').waitFor();
    await chat.page.keyboard.press('Alt+ArrowUp');
    const editor = chat.page.getByLabel('Edit the message');
    await editor.fill('echo: written meanwhile');
    await chat.page.keyboard.press('Control+Enter');
    await chat.page.getByText('An answer is still coming in.').waitFor();
    assert.equal(await editor.inputValue(), 'echo: written meanwhile');
    await chat.page.getByRole('button', { name: 'Stop' }).click();
    await chat.ended();
    await editor.press('Control+Enter');
    await chat.ended();
    assert.equal(await chat.lastAnswer().textContent(), 'written meanwhile');
    await chat.close();
  },

  async 'the keyboard focus is never lost with a message that goes'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    await chat.ask('echo: one');
    const focused = () => chat.page.evaluate(() => document.activeElement.id);
    await chat.page.getByRole('button', { name: 'Regenerate' }).focus();
    await chat.page.keyboard.press('Enter');
    await chat.page.getByText('2 / 2').waitFor();
    await chat.ended();
    assert.equal(await focused(), 'draft');
    await chat.page.keyboard.press('Alt+ArrowUp');
    await chat.page.getByLabel('Edit the message').fill('echo: two');
    await chat.page.keyboard.press('Control+Enter');
    await chat.page.locator('.message.user').getByText('2 / 2').waitFor();
    await chat.ended();
    assert.equal(await focused(), 'draft');
    await chat.answers().last().getByRole('button', { name: 'Edit' }).click();
    await chat.page.getByLabel('Edit the message').fill('corrected');
    await chat.page.keyboard.press('Control+Enter');
    assert.equal(await chat.page.evaluate(() => document.activeElement.getAttribute('aria-label')), 'Earlier version');
    await chat.close();
  },

  async 'settings are sent, and only those that are set'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    await chat.ask('plain');
    assert.deepEqual(Object.keys(stub.requests.at(-1)).sort(), ['messages', 'model', 'stream', 'stream_options']);
    await chat.openSettings();
    await chat.page.getByRole('textbox', { name: 'System prompt' }).fill('Be brief.');
    for (const [label, value] of [['Temperature', '0.5'], ['Top p', '0.9'], ['Top k', '40'], ['Min p', '0.05'], ['Max tokens', '99'], ['Seed', '7']]) await chat.page.getByLabel(label).fill(value);
    await chat.page.getByLabel('Model').selectOption('other');
    await chat.ask('with settings');
    const { messages, stream, stream_options: _, ...sent } = stub.requests.at(-1);
    assert.deepEqual(sent, { model: 'other', temperature: 0.5, top_p: 0.9, top_k: 40, min_p: 0.05, max_tokens: 99, seed: 7 });
    assert.deepEqual(messages[0], { role: 'system', content: 'Be brief.' });
    await chat.page.getByLabel('Temperature').fill('9');
    assert.equal(await chat.page.getByLabel('Temperature').getAttribute('aria-invalid'), 'true');
    await chat.page.getByText('Temperature must be a number from 0 to 2').waitFor();
    await chat.ask('again');
    assert.equal(stub.requests.at(-1).temperature, 0.5, 'a value that is not one is not sent');
    await checkAccessible(chat.page, 'with an error in the settings');
    await chat.close();
  },

  async 'a JSON schema is sent, and what the server says against it is shown'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    chat.expected.push(/400 \(Bad Request\)/);
    await chat.openSettings();
    await chat.page.getByRole('button', { name: 'Insert an example' }).click();
    await chat.ask('describe');
    const format = stub.requests.at(-1).response_format;
    assert.equal(format.type, 'json_schema');
    assert.equal(format.json_schema.schema.type, 'object');
    assert.deepEqual(JSON.parse(await chat.lastAnswer().locator('pre').textContent()), { title: 'A <b>title</b>', tags: ['x'] });
    stub.refusal = { status: 400, message: 'response_format: the keyword "patternFoo" is not supported' };
    await chat.ask('again');
    assert.match(await chat.answers().last().locator('.note.failed').textContent(), /keyword "patternFoo" is not supported/);
    await chat.page.locator('#schema').fill('{"type": ');
    assert.match(await chat.page.locator('#schema-error').textContent(), /not valid JSON/);
    const before = stub.requests.length;
    await chat.send('third');
    await chat.page.locator('#notices .notice').waitFor();
    assert.equal(stub.requests.length, before, 'nothing was sent');
    assert.equal(await chat.page.getByLabel('Message', { exact: true }).inputValue(), 'third', 'the message is still there');
    await chat.close();
  },

  async 'refusals are shown with a retry'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    chat.expected.push(/429/, /503/);
    stub.refusal = { status: 429, message: 'the queue is full', headers: { 'Retry-After': '3' } };
    await chat.ask('hello');
    assert.match(await chat.answers().last().locator('.note.failed').textContent(), /busy: the queue is full\. Try again in 3 s\./);
    stub.refusal = { status: 503, message: 'the model is being loaded' };
    await chat.page.getByRole('button', { name: 'Retry' }).click();
    await chat.page.getByText('unavailable: the model is being loaded').first().waitFor();
    await chat.page.getByRole('button', { name: 'Retry' }).click();
    await chat.lastAnswer().getByText('Answer to').waitFor();
    await chat.ended();
    assert.equal(await chat.page.locator('.place').count(), 0, 'answers without a word are replaced');
    await chat.close();
  },

  async 'a cut connection keeps the partial answer, and a retry adds a branch'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    chat.expected.push(/ERR_INCOMPLETE_CHUNKED_ENCODING/);
    await chat.ask('cut');
    assert.match(await chat.lastAnswer().textContent(), /^The beginning of an answer that is never compl$/);
    assert.match(await chat.answers().last().locator('.note.failed').textContent(), /connection to the server was lost before/);
    await chat.page.getByRole('button', { name: 'Retry' }).click();
    await chat.ended();
    assert.equal(await chat.answers().last().locator('.place').textContent(), '2 / 2');
    await chat.page.locator('#new-conversation').click();
    await chat.ask('fail');
    assert.equal(await chat.lastAnswer().textContent(), 'Half an ans');
    assert.match(await chat.answers().last().locator('.note.failed').textContent(), /the device ran out of memory/);
    stub.stop();
    chat.expected.push(/ERR_CONNECTION_REFUSED/);
    await chat.ask('anyone?');
    assert.match(await chat.answers().last().locator('.note.failed').textContent(), /cannot be reached/);
    await chat.close();
  },

  async 'a server with a key asks for it, and the key stays in the tab'(browser, stub) {
    stub.key = 'sk-secret-1';
    const chat = await ChatPage.open(browser, stub.url);
    chat.expected.push(/401/);
    await chat.page.getByRole('dialog', { name: 'API key' }).waitFor();
    await chat.page.getByText('This server asks for an API key.').waitFor();
    await chat.page.getByLabel('Key', { exact: true }).fill('wrong');
    await chat.page.getByRole('button', { name: 'Use this key' }).click();
    await chat.page.getByRole('dialog', { name: 'API key' }).waitFor();
    await chat.page.getByLabel('Key', { exact: true }).fill('sk-secret-1');
    await chat.page.getByLabel('Key', { exact: true }).press('Enter');
    await chat.page.locator('#model:enabled').waitFor();
    await chat.ask('hello');
    assert.match(await chat.lastAnswer().textContent(), /Answer to/);
    const stored = await chat.page.evaluate(async () => {
      const databases = await new Promise((resolve) => {
        const open = indexedDB.open('ballast-chat');
        open.onsuccess = () => { open.result.transaction('conversations').objectStore('conversations').getAll().onsuccess = (event) => resolve(event.target.result); };
      });
      return [JSON.stringify({ ...localStorage }) + JSON.stringify(databases), JSON.stringify({ ...sessionStorage })];
    });
    assert.ok(!stored[0].includes('sk-secret-1'), 'the key is stored for longer than the tab');
    assert.ok(stored[1].includes('sk-secret-1'));
    stub.key = 'sk-other'; // the server's keys changed: the question is asked again with the new one
    await chat.send('still there?');
    await chat.page.getByRole('dialog', { name: 'API key' }).waitFor();
    await chat.page.getByLabel('Key', { exact: true }).fill('sk-other');
    await chat.page.getByRole('button', { name: 'Use this key' }).click();
    await chat.lastAnswer().getByText('still there?').waitFor();
    await chat.close();
  },

  async 'text files go into the message, others are refused'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    await chat.page.locator('#files').setInputFiles([
      { name: 'a.py', mimeType: 'text/x-python', buffer: Buffer.from('print("```")\n') },
      { name: 'b.bin', mimeType: 'application/octet-stream', buffer: Buffer.from([0, 255, 1]) },
      { name: 'big.txt', mimeType: 'text/plain', buffer: Buffer.alloc(300 * 1024, 'x') },
    ]);
    await chat.page.getByText('b.bin is not a text file').waitFor();
    await chat.page.getByText('big.txt is 300 KiB; the limit is 256 KiB').waitFor();
    await chat.ask('explain');
    assert.equal(stub.requests.at(-1).messages[0].content, 'File "a.py":\n\n````py\nprint("```")\n````\n\nexplain');
    await chat.page.locator('.message.user summary').getByText('a.py').waitFor();
    await chat.close();
  },
};
