// Chromium, and what the tests do with the page.

import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';

// Whichever page is installed brings it.
const kPages = ['chat', 'lens'].map((page) => new URL(`../../web/${page}/package.json`, import.meta.url));
const page = kPages.find((file) => existsSync(new URL('node_modules/playwright-core', file))) ?? kPages[0];
const { chromium } = createRequire(page)('playwright-core');

const kPlaces = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

export async function launch() {
  const executablePath = process.env.CHROMIUM ?? kPlaces.find(existsSync);
  if (executablePath === undefined) {
    throw new Error('There is no Chromium: install the package chromium, or say where it is with CHROMIUM=PATH.');
  }
  // Without root Chromium's own sandbox works; as root, as in containers, it refuses to start with it.
  const args = process.getuid() === 0 ? ['--no-sandbox'] : [];
  return chromium.launch({ executablePath, args });
}

// A page that fails the test where anything on it breaks the policy or throws.
export class ChatPage {
  problems = [];
  expected = []; // patterns of what may appear on the console

  static async open(browser, url, options = {}) {
    const self = new ChatPage();
    self.context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: 'light', acceptDownloads: true, ...options });
    self.page = await self.context.newPage();
    self.page.setDefaultTimeout(60_000);
    self.page.on('console', (message) => {
      if (message.type() === 'error') self.problems.push(message.text());
    });
    self.page.on('pageerror', (error) => self.problems.push(String(error)));
    self.page.on('dialog', (dialog) => {
      self.problems.push(`a dialog was opened: ${dialog.message()}`);
      void dialog.dismiss();
    });
    await self.page.goto(url);
    return self;
  }

  async close() {
    const unexpected = this.problems.filter((problem) => !this.expected.some((pattern) => pattern.test(problem)));
    await this.context.close();
    assert.deepEqual(unexpected, [], 'problems on the console');
  }

  // As a user does: type and press Enter.
  async send(text) {
    await this.page.getByLabel('Message', { exact: true }).fill(text);
    await this.page.getByLabel('Message', { exact: true }).press('Enter');
  }

  async openSettings() {
    await this.page.getByRole('button', { name: 'Settings', exact: true }).click();
  }

  async ask(text) {
    await this.send(text);
    await this.ended();
  }

  async ended() {
    await this.page.locator('#stop').waitFor({ state: 'hidden' });
  }

  // Short answers, and always the same ones.
  async limitAnswers(tokens) {
    await this.openSettings();
    await this.page.getByLabel('Max tokens').fill(String(tokens));
    await this.page.getByLabel('Temperature').fill('0');
    await this.page.getByRole('button', { name: 'Close settings' }).click();
  }

  answers() {
    return this.page.locator('.message.assistant');
  }

  lastAnswer() {
    return this.answers().last().locator('.body');
  }

  questions() {
    return this.page.locator('.message.user .body');
  }

  // Stored, and not only on its way there.
  async reload() {
    await this.page.waitForTimeout(600);
    await this.page.reload();
    await this.page.locator('#thread > *').first().waitFor();
  }
}
