// The pictures of docs/serve.md.

import { join } from 'node:path';

import { ChatPage } from './browser.mjs';

const kQuestion = 'Write a Python function that checks whether a number is even.';

async function shoot(browser, url, file, options, hasPanel) {
  const chat = await ChatPage.open(browser, url, { deviceScaleFactor: 1.5, ...options });
  await chat.limitAnswers(250);
  await chat.ask(kQuestion);
  if (hasPanel) await chat.openSettings();
  await chat.page.locator('#thread').evaluate((thread, isAtEnd) => { thread.scrollTop = isAtEnd ? thread.scrollHeight : 0; }, hasPanel);
  await chat.page.screenshot({ path: file });
  await chat.close();
}

export async function takeScreenshots(browser, url, folder) {
  await shoot(browser, url, join(folder, 'chat-light.png'), { viewport: { width: 1280, height: 800 }, colorScheme: 'light' }, true);
  await shoot(browser, url, join(folder, 'chat-dark.png'), { viewport: { width: 1280, height: 800 }, colorScheme: 'dark' }, false);
  await shoot(browser, url, join(folder, 'chat-small.png'), { viewport: { width: 390, height: 844 }, colorScheme: 'light', isMobile: true, hasTouch: true }, false);
}
