import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  type Conversation, addMessage, endInterrupted, findMessage, makeConversation, makeMessage, pathTo, removeMessage, showSibling, shownPath,
  siblingsOf, titleOf,
} from '../src/conversation.ts';
import { defaultSettings } from '../src/settings.ts';

const contents = (conversation: Conversation): string[] => shownPath(conversation).map((message) => message.content);

function talk(): Conversation {
  const conversation = makeConversation(defaultSettings(), 1);
  let parent: string | null = null;
  for (const [role, content] of [['user', 'u1'], ['assistant', 'a1'], ['user', 'u2'], ['assistant', 'a2']] as const) {
    const message = makeMessage(role, content, 2);
    addMessage(conversation, message, parent);
    parent = message.id;
  }
  return conversation;
}

const named = (conversation: Conversation, content: string) => conversation.messages.find((message) => message.content === content)!;

test('a conversation shows the path that was taken last', () => {
  const conversation = talk();
  assert.deepEqual(contents(conversation), ['u1', 'a1', 'u2', 'a2']);
  assert.deepEqual(pathTo(conversation, named(conversation, 'u2').id).map((message) => message.content), ['u1', 'a1', 'u2']);
});

test('regenerating adds a sibling, and the arrows go between them', () => {
  const conversation = talk();
  addMessage(conversation, makeMessage('assistant', 'b2'), named(conversation, 'u2').id);
  assert.deepEqual(contents(conversation), ['u1', 'a1', 'u2', 'b2']);
  assert.equal(siblingsOf(conversation, named(conversation, 'b2')).length, 2);
  showSibling(conversation, named(conversation, 'b2'), -1);
  assert.deepEqual(contents(conversation), ['u1', 'a1', 'u2', 'a2']);
  showSibling(conversation, named(conversation, 'a2'), -1);
  assert.deepEqual(contents(conversation), ['u1', 'a1', 'u2', 'a2'], 'there is nothing before the first');
});

test('editing the first message branches there, and each branch remembers how it went on', () => {
  const conversation = talk();
  addMessage(conversation, makeMessage('user', 'v1'), null);
  assert.deepEqual(contents(conversation), ['v1']);
  addMessage(conversation, makeMessage('assistant', 'w1'), named(conversation, 'v1').id);
  showSibling(conversation, named(conversation, 'v1'), -1);
  assert.deepEqual(contents(conversation), ['u1', 'a1', 'u2', 'a2']);
  showSibling(conversation, named(conversation, 'u1'), 1);
  assert.deepEqual(contents(conversation), ['v1', 'w1']);
});

test('a message goes with everything below it', () => {
  const conversation = talk();
  addMessage(conversation, makeMessage('assistant', 'b1'), named(conversation, 'u1').id);
  showSibling(conversation, named(conversation, 'b1'), -1);
  removeMessage(conversation, named(conversation, 'a1'));
  assert.deepEqual(contents(conversation), ['u1', 'b1']);
  assert.equal(conversation.messages.length, 2);
  removeMessage(conversation, named(conversation, 'u1'));
  assert.deepEqual(conversation.messages, []);
  assert.equal(conversation.first, null);
});

test('a circle in stored data does not hang the page', () => {
  const conversation = talk();
  named(conversation, 'a2').chosen = named(conversation, 'u1').id;
  named(conversation, 'u1').parent = named(conversation, 'a2').id;
  assert.equal(shownPath(conversation).length, 4);
  assert.equal(pathTo(conversation, named(conversation, 'a2').id).length, 4);
});

test('the title follows the first message until the user gives one', () => {
  const conversation = talk();
  assert.equal(conversation.title, 'u1');
  addMessage(conversation, makeMessage('user', '\n  another\nline'), null);
  assert.equal(conversation.title, 'another');
  conversation.isRenamed = true;
  addMessage(conversation, makeMessage('user', 'third'), null);
  assert.equal(conversation.title, 'another');
  const long = titleOf(makeMessage('user', '😀'.repeat(100)));
  assert.equal(Array.from(long).length, 60);
  assert.doesNotThrow(() => encodeURIComponent(long), 'half a character');
});

test('an answer that the end of the page cut is marked as such', () => {
  const conversation = talk();
  named(conversation, 'a2').state = 'streaming';
  endInterrupted(conversation);
  assert.equal(findMessage(conversation, named(conversation, 'a2').id)!.state, 'failed');
  assert.match(named(conversation, 'a2').error, /closed before/);
});
