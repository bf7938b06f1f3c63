// What the page does around conversations: export, keys, screen readers, small screens, other tabs, storage that fails.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

import { checkAccessible } from './accessibility.mjs';
import { ChatPage } from './browser.mjs';

export const stubPageTests = {
  async 'export and import'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    await chat.ask('keep me');
    await chat.openSettings();
    const waiting = chat.page.waitForEvent('download');
    await chat.page.getByRole('button', { name: 'Export' }).click();
    const text = readFileSync(await (await waiting).path(), 'utf8');
    await chat.page.getByRole('button', { name: 'Delete all' }).click();
    await chat.page.getByRole('button', { name: 'Delete', exact: true }).click();
    assert.equal(await chat.page.locator('#conversations li').count(), 0);
    const importing = (content) => chat.page.locator('#import-file').setInputFiles({ name: 'x.json', mimeType: 'application/json', buffer: Buffer.from(content) });
    await importing('{"format": "other"}');
    await chat.page.getByText('Nothing was imported. The file is not an export of this page').waitFor();
    await importing(text);
    await chat.page.getByText('Imported 1 conversation.').waitFor();
    assert.equal(await chat.page.locator('.notice').getAttribute('class'), 'notice done'); // not red, and the refusal before is gone
    await chat.page.locator('#conversations .open').click();
    assert.equal(await chat.questions().textContent(), 'keep me');
    await chat.close();
  },

  async 'requests can be copied for curl and Python, without the key'(browser, stub) {
    stub.key = 'sk-secret-2';
    const chat = await ChatPage.open(browser, stub.url, { permissions: ['clipboard-read', 'clipboard-write'] });
    chat.expected.push(/401/);
    await chat.page.getByLabel('Key', { exact: true }).fill('sk-secret-2');
    await chat.page.getByRole('button', { name: 'Use this key' }).click();
    await chat.page.locator('#model:enabled').waitFor();
    await chat.ask("it's a question");
    const clipboard = () => chat.page.evaluate(() => navigator.clipboard.readText());
    await chat.page.getByRole('button', { name: 'Copy request as curl' }).click();
    await chat.page.getByRole('status').getByText('curl command copied').waitFor({ state: 'attached' });
    const curl = await clipboard();
    assert.ok(curl.startsWith(`curl '${stub.url}v1/chat/completions'`), curl);
    assert.ok(curl.includes(`it'\\''s a question`) && curl.includes('$OPENAI_API_KEY') && !curl.includes('sk-secret-2'), curl);
    await chat.openSettings();
    await chat.page.getByRole('button', { name: 'Copy as Python' }).click();
    await chat.page.getByRole('status').getByText('Python program copied').waitFor({ state: 'attached' });
    const python = await clipboard();
    assert.ok(python.includes('from openai import OpenAI') && python.includes(`"it's a question"`) && !python.includes('sk-secret-2'), python);
    await chat.ask('echo: ```js\nlet x = 1;\n```');
    await chat.page.getByRole('button', { name: 'Copy code' }).last().click();
    await chat.page.getByText('Copied', { exact: true }).waitFor();
    assert.equal(await clipboard(), 'let x = 1;');
    await chat.close();
  },

  async 'keys: Enter, Shift+Enter, shortcuts and the list of them'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    const field = chat.page.getByLabel('Message', { exact: true });
    assert.equal(await field.evaluate((element) => element === document.activeElement), true, 'the field has the focus at the start');
    await chat.page.keyboard.type('one');
    await chat.page.keyboard.press('Shift+Enter');
    await chat.page.keyboard.type('two');
    await chat.page.keyboard.press('Enter');
    await chat.ended();
    assert.equal(stub.requests.at(-1).messages[0].content, 'one\ntwo');
    await chat.page.keyboard.press('Alt+r');
    await chat.page.locator('.message.assistant .place').waitFor();
    await chat.ended();
    await chat.page.keyboard.press('Alt+ArrowUp');
    await chat.page.getByLabel('Edit the message').waitFor();
    await chat.page.keyboard.press('Escape');
    assert.equal(await chat.page.getByLabel('Edit the message').count(), 0);
    await chat.page.locator('#thread').focus();
    await chat.page.keyboard.press('?');
    await chat.page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
    assert.ok(await chat.page.locator('#shortcut-list dt').count() >= 8);
    await chat.page.keyboard.press('Escape');
    await chat.page.keyboard.press('Alt+s');
    await chat.page.getByRole('complementary', { name: 'Settings' }).waitFor();
    await chat.close();
  },

  async 'screen readers hear that an answer began and what it was'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    await chat.page.evaluate(() => {
      window.said = [];
      new MutationObserver(() => window.said.push(document.querySelector('#status').textContent)).observe(document.querySelector('#status'), { childList: true });
    });
    await chat.ask('echo: hello');
    await chat.page.waitForTimeout(100);
    assert.deepEqual(await chat.page.evaluate(() => window.said), ['The model is answering.', 'Answer: hello']);
    assert.equal(await chat.answers().last().getAttribute('aria-busy'), 'false');
    await chat.close();
  },

  async 'light, dark and small screens pass the basic checks of accessibility'(browser, stub) {
    for (const options of [{ colorScheme: 'light' }, { colorScheme: 'dark' }, { viewport: { width: 360, height: 640 }, isMobile: true, hasTouch: true }]) {
      const where = JSON.stringify(options);
      const chat = await ChatPage.open(browser, stub.url, options);
      chat.expected.push(/429/);
      await checkAccessible(chat.page, `${where} empty`);
      await chat.ask('show me how to sort a list');
      stub.refusal = { status: 429, message: 'full' };
      await chat.ask('second');
      await checkAccessible(chat.page, `${where} messages`);
      await chat.openSettings();
      await checkAccessible(chat.page, `${where} settings`);
      assert.ok(await chat.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${where}: the page is wider than the screen`);
      await chat.close();
    }
  },

  async 'the theme follows the system until it is chosen, and the choice stays'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url, { colorScheme: 'dark' });
    const background = () => chat.page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const dark = await background();
    await chat.page.getByRole('button', { name: 'Theme: system' }).click();
    const light = await background();
    assert.notEqual(light, dark);
    await chat.reload();
    assert.equal(await background(), light);
    await chat.page.getByRole('button', { name: 'Theme: light' }).click();
    assert.equal(await background(), dark);
    await chat.close();
  },

  async 'on a small screen the lists lie above the messages and close again'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url, { viewport: { width: 360, height: 640 }, isMobile: true, hasTouch: true });
    assert.equal(await chat.page.locator('#sidebar').isVisible(), false);
    await chat.ask('one');
    await chat.page.getByRole('button', { name: 'Conversations' }).tap();
    assert.equal(await chat.page.locator('#sidebar').isVisible(), true);
    await chat.page.locator('#conversations .open').tap();
    assert.equal(await chat.page.locator('#sidebar').isVisible(), false);
    await chat.page.getByRole('button', { name: 'Settings', exact: true }).tap();
    await chat.page.keyboard.press('Escape');
    assert.equal(await chat.page.locator('#panel').isVisible(), false);
    await chat.close();
  },

  async 'on a small screen the focus stays in an open list, which has a button that closes it'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url, { viewport: { width: 360, height: 640 } });
    await chat.ask('one');
    const drawers = [['#sidebar', '#toggle-sidebar', 'Close conversations'], ['#panel', '#toggle-panel', 'Close settings']];
    for (const [drawer, toggle, close] of drawers) {
      await chat.page.locator(toggle).click();
      const seen = new Set();
      for (let i = 0; i < 40; ++i) {
        await chat.page.keyboard.press('Tab');
        seen.add(await chat.page.evaluate((id) => {
          const focused = document.activeElement;
          return focused === document.body ? 'nothing' : focused.closest(id) !== null ? 'inside' : focused.outerHTML;
        }, drawer));
      }
      seen.delete('nothing'); // where the browser's own controls would have the focus
      assert.deepEqual([...seen], ['inside']);
      await chat.page.getByRole('button', { name: close }).click();
      assert.equal(await chat.page.locator(drawer).isVisible(), false);
      assert.equal(await chat.page.evaluate((id) => document.activeElement.matches(id), toggle), true);
    }
    await chat.page.locator('#toggle-panel').click();
    await chat.page.keyboard.press('Alt+M');
    assert.equal(await chat.page.locator('#draft').evaluate((draft) => draft === document.activeElement), true);
    await chat.close();
  },

  async 'another tab sees what this one did'(browser, stub) {
    const chat = await ChatPage.open(browser, stub.url);
    const other = await chat.context.newPage();
    await other.goto(stub.url);
    await chat.ask('from the first tab');
    await other.locator('#conversations .open').getByText('from the first tab').waitFor();
    await chat.close();
  },

  async 'without storage the page works and says that it forgets'(browser, stub) {
    const chat = await ChatPage.open(browser, 'about:blank');
    await chat.page.addInitScript(() => {
      IDBFactory.prototype.open = () => { throw new DOMException('no', 'SecurityError'); };
      Storage.prototype.setItem = () => { throw new DOMException('full', 'QuotaExceededError'); };
    });
    await chat.page.goto(stub.url);
    await chat.page.getByText('does not let the page store data').waitFor();
    await chat.ask('hello');
    assert.match(await chat.lastAnswer().textContent(), /Answer to/);
    await chat.close();
  },

  async 'a full disk is told once and does not stop the conversation'(browser, stub) {
    const chat = await ChatPage.open(browser, 'about:blank');
    await chat.page.addInitScript(() => {
      IDBObjectStore.prototype.put = () => { throw new DOMException('full', 'QuotaExceededError'); };
    });
    await chat.page.goto(stub.url);
    await chat.ask('one');
    await chat.page.getByText('storage is full').waitFor();
    await chat.ask('two');
    assert.equal(await chat.answers().count(), 2);
    await chat.close();
  },
};
