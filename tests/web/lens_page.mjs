// The page in a browser, and what tests do with it. A test fails where anything on the page throws or breaks its policy.

import assert from 'node:assert/strict';

export class LensPage {
  problems = [];

  static async open(browser, url, options = {}) {
    const self = new LensPage();
    self.context = await browser.newContext({ viewport: { width: 1360, height: 860 }, colorScheme: 'light', acceptDownloads: true, ...options });
    // Without a picker, which is a window of the system, files are downloaded.
    await self.context.addInitScript(() => { delete window.showSaveFilePicker; });
    self.page = await self.context.newPage();
    self.page.setDefaultTimeout(30_000);
    self.page.on('console', (message) => {
      if (message.type() === 'error') self.problems.push(message.text());
    });
    self.page.on('pageerror', (error) => self.problems.push(String(error)));
    await self.page.goto(url);
    return self;
  }

  async close() {
    await this.context.close();
    assert.deepEqual(this.problems, [], 'problems on the console');
  }

  // As if they were chosen; resolves when the file is open or refused.
  async choose(files) {
    if (await this.page.locator('#open-other').isVisible()) await this.page.locator('#open-other').click();
    const again = this.page.getByRole('button', { name: 'Open another file' });
    if (await again.isVisible()) await again.click();
    await this.page.locator('#files').setInputFiles(files);
    await this.page.locator('#work:not([hidden]), #failure:not([hidden]), #offered:not([hidden])').first().waitFor();
  }

  async show(tab) {
    await this.page.getByRole('tab', { name: new RegExp(`^${tab}`) }).click();
  }

  async openTensor(name) {
    await this.show('Tensors');
    await this.page.getByLabel('Filter by name (regular expression)').fill(`^${name.replace(/[.[\]()+*?\\^$|]/g, '\\$&')}$`);
    await this.page.locator('.grid-tall .grid-row:not([hidden])').first().locator('span').nth(1).click();
    await this.page.getByRole('heading', { name, exact: true, level: 2 }).waitFor();
  }

  // { Minimum: '-1', ... } of a list of facts.
  facts(selector) {
    return this.page.locator(`${selector} dl.facts`).first().evaluate((list) =>
      Object.fromEntries([...list.querySelectorAll('dt')].map((name) => [name.textContent, name.nextElementSibling.textContent])));
  }

  async failure() {
    const card = this.page.locator('#failure .failure');
    return { code: await card.getAttribute('data-code'), text: await card.textContent() };
  }
}
