import assert from 'node:assert/strict';
import { test } from 'node:test';

import { addMessage, makeConversation, makeMessage } from '../src/conversation.ts';
import { defaultSettings } from '../src/settings.ts';
import { ImportError, exportText, mergeImported, readExport } from '../src/transfer.ts';

function sample() {
  const conversation = makeConversation({ ...defaultSettings(), temperature: 0.5, seed: 7, system: 'Be brief.' }, 1000);
  const user = makeMessage('user', 'Hi <b>', 1001);
  user.attachments = [{ name: 'a.txt', text: 'x' }];
  addMessage(conversation, user, null);
  const answer = makeMessage('assistant', 'Hello', 1002);
  answer.stats = { promptTokens: 3, cachedTokens: null, answerTokens: 2, firstTokenMs: 10, answerMs: 20 };
  addMessage(conversation, answer, user.id);
  return conversation;
}

type Json = Record<string, any>;

function broken(change: (file: Json) => void): string {
  const file = JSON.parse(exportText([sample()])) as Json;
  change(file);
  return JSON.stringify(file);
}

test('what is exported comes back the same', () => {
  const conversation = sample();
  assert.deepEqual(readExport(exportText([conversation])), [conversation]);
  assert.deepEqual(readExport(exportText([])), []);
});

test('files that are not exports are refused, and the place is named', () => {
  const cases: [string | ((file: Json) => void), RegExp][] = [
    ['', /not valid JSON/],
    ['{', /not valid JSON/],
    ['null', /The file is not an object/],
    ['[]', /The file is not an object/],
    ['{}', /"format" is not/],
    [(file) => { file['version'] = 2; }, /version 2/],
    [(file) => { file['conversations'] = {}; }, /conversations is not a list/],
    [(file) => { file['conversations'] = Array(10_001).fill(0); }, /10001 entries/],
    [(file) => { file['conversations'][0] = 5; }, /conversations\[0\] is not an object/],
    [(file) => { file['conversations'][0].id = '../x'; }, /conversations\[0\]\.id is not an id/],
    [(file) => { file['conversations'][0].title = {}; }, /title is not a string/],
    [(file) => { file['conversations'][0].title = 'x'.repeat(501); }, /limit is 500/],
    [(file) => { file['conversations'][0].createdAt = '1'; }, /createdAt is not a time/],
    [(file) => { file['conversations'][0].messages[1].role = 'system'; }, /messages\[1\]\.role must be one of: user, assistant/],
    [(file) => { file['conversations'][0].messages[1].content = null; }, /messages\[1\]\.content is not a string/],
    [(file) => { file['conversations'][0].messages[1].state = 'x'; }, /state must be one of/],
    [(file) => { file['conversations'][0].messages[1].parent = 'nobody'; }, /parent is not an earlier message/],
    [(file) => { file['conversations'][0].messages.reverse(); }, /parent is not an earlier message/],
    [(file) => { file['conversations'][0].messages[0].parent = file['conversations'][0].messages[0].id; }, /parent is not an earlier/],
    [(file) => { file['conversations'][0].messages[1].id = file['conversations'][0].messages[0].id; }, /earlier message/],
    [(file) => { file['conversations'][0].messages[1].chosen = file['conversations'][0].messages[0].id; }, /does not follow/],
    [(file) => { file['conversations'][0].first = file['conversations'][0].messages[1].id; }, /first is not a first message/],
    [(file) => { file['conversations'][0].messages[0].attachments = [{ name: 'x' }]; }, /attachments\[0\]\.text is not a string/],
  ];
  for (const [change, message] of cases) {
    const text = typeof change === 'string' ? change : broken(change);
    assert.throws(() => readExport(text), (error) => error instanceof ImportError && message.test(error.message), String(message));
  }
});

test('unknown fields and wild settings do not come in', () => {
  const text = broken((file) => {
    file['conversations'][0].evil = 1;
    file['conversations'][0].messages[0].onclick = 'x';
    file['conversations'][0].settings = { temperature: 1e9, top_k: 1.5, seed: -1, system: 5, useSchema: 'yes', __proto__: { x: 1 } };
  }).replace('"evil"', '"__proto__"');
  const [conversation] = readExport(text);
  assert.deepEqual(conversation!.settings, defaultSettings());
  assert.equal('onclick' in conversation!.messages[0]!, false);
  assert.equal(Object.getPrototypeOf(conversation), Object.prototype);
});

test('importing twice adds nothing, and a conversation that went on is not overwritten', () => {
  const mine = sample();
  const here = new Map([[mine.id, mine]]);
  assert.deepEqual(mergeImported(here, readExport(exportText([mine]))), []);
  const older = readExport(exportText([mine]));
  addMessage(mine, makeMessage('user', 'more'), mine.messages[1]!.id);
  const added = mergeImported(here, older);
  assert.equal(added.length, 1);
  assert.notEqual(added[0]!.id, mine.id);
});
