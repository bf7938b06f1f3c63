// What must work with a real server and a real model. Nothing here knows what the model says.

import assert from 'node:assert/strict';

import { checkAccessible } from './accessibility.mjs';
import { ChatPage } from './browser.mjs';

const kStory = 'Write a long story about a ship and its crew, in many chapters.';

export const realTests = {
  async 'the page is served under its policy, and the model is listed'(browser, url) {
    const chat = await ChatPage.open(browser, url);
    const response = await chat.page.request.get(url);
    const policy = response.headers()['content-security-policy'] ?? '';
    for (const part of ["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]) assert.ok(policy.includes(part), policy);
    await chat.page.locator('#model option').first().waitFor({ state: 'attached' });
    await chat.page.waitForFunction(() => !document.querySelector('#model').disabled);
    await checkAccessible(chat.page, 'with a real server');
    await chat.close();
  },

  async 'an answer appears piece by piece, with its counts'(browser, url) {
    const chat = await ChatPage.open(browser, url);
    await chat.limitAnswers(48);
    await chat.page.evaluate(() => {
      window.lengths = new Set();
      new MutationObserver(() => window.lengths.add(document.querySelector('.message.assistant .body')?.textContent.length ?? 0))
        .observe(document.querySelector('#thread'), { childList: true, subtree: true, characterData: true });
    });
    await chat.ask('Tell me about ships.');
    assert.ok(await chat.page.evaluate(() => window.lengths.size) >= 3, 'the answer came at once');
    assert.notEqual((await chat.lastAnswer().textContent()).trim(), '');
    assert.match(await chat.answers().last().locator('.stats').textContent(), /\d+ prompt tokens?.* · \d+ answer tokens?.* · [\d.]+ tokens\/s/);
    await chat.close();
  },

  async 'stop ends the answer and keeps what there is'(browser, url) {
    const chat = await ChatPage.open(browser, url);
    await chat.limitAnswers(2000);  // what the model writes without chance is hundreds of tokens: it cannot end before it is stopped
    await chat.send(kStory);
    await chat.page.waitForFunction(() => (document.querySelector('.message.assistant .body')?.textContent.length ?? 0) > 10);
    await chat.page.keyboard.press('Escape');
    await chat.ended();
    const text = await chat.lastAnswer().textContent();
    assert.ok(text.length > 10);
    assert.equal(await chat.answers().last().locator('.note').textContent(), 'Stopped.');
    await chat.page.waitForTimeout(500);
    assert.equal(await chat.lastAnswer().textContent(), text, 'it went on');
    await chat.close();
  },

  async 'a reload keeps the conversation, and it can go on'(browser, url) {
    const chat = await ChatPage.open(browser, url);
    await chat.limitAnswers(16);
    await chat.ask('What is the capital of France?');
    const before = await chat.lastAnswer().textContent();
    await chat.reload();
    assert.equal(await chat.lastAnswer().textContent(), before);
    await chat.ask('And of Italy?');
    assert.equal(await chat.answers().count(), 2);
    await chat.close();
  },

  async 'the same question at temperature 0 gets the same answer, as a branch'(browser, url) {
    const chat = await ChatPage.open(browser, url);
    await chat.limitAnswers(16);
    await chat.ask('Name a colour.');
    const first = await chat.lastAnswer().textContent();
    await chat.page.getByRole('button', { name: 'Regenerate' }).click();
    await chat.ended();
    assert.equal(await chat.answers().last().locator('.place').textContent(), '2 / 2');
    assert.equal(await chat.lastAnswer().textContent(), first);
    await chat.page.locator('.message.user').getByRole('button', { name: 'Edit' }).click();
    await chat.page.getByLabel('Edit the message').fill('Name an animal.');
    await chat.page.getByRole('button', { name: 'Send as a new branch' }).click();
    await chat.ended();
    assert.equal(await chat.page.locator('.message.user .place').textContent(), '2 / 2');
    await chat.page.locator('.message.user').getByRole('button', { name: 'Earlier version' }).click();
    assert.equal(await chat.lastAnswer().textContent(), first);
    await chat.close();
  },

  async 'hostile HTML stays text'(browser, url) {
    const hostile = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>';
    const chat = await ChatPage.open(browser, url);
    await chat.limitAnswers(32);
    await chat.ask(`Repeat this exactly: ${hostile}`);
    assert.ok((await chat.questions().textContent()).includes(hostile));
    assert.equal(await chat.page.locator('#thread img, #thread script, #thread iframe').count(), 0);
    assert.equal(await chat.page.evaluate(() => window.hacked), undefined);
    await chat.close();
  },

  async 'a schema makes JSON, and a schema that the server refuses is told'(browser, url) {
    const chat = await ChatPage.open(browser, url);
    await chat.limitAnswers(200);
    await chat.openSettings();
    await chat.page.getByRole('button', { name: 'Insert an example' }).click();
    await chat.ask('Describe a ship.');
    const refusals = await chat.answers().last().locator('.note.failed').allTextContents();
    assert.deepEqual(refusals, [], 'the server refused the example');
    const answer = JSON.parse(await chat.lastAnswer().locator('pre').textContent());
    assert.equal(typeof answer.title, 'string');
    assert.ok(Array.isArray(answer.tags));
    chat.expected.push(/400/);
    await chat.page.locator('#schema').fill('{"type": "no such type"}');
    await chat.ask('Again.');
    await chat.answers().last().locator('.note.failed').waitFor();
    assert.notEqual(await chat.answers().last().locator('.note.failed span').textContent(), '');
    await chat.close();
  },
};
