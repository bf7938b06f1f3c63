// Text files for a message: their sizes are checked before they are read, and only text is taken.

import type { Attachment } from './conversation.ts';

export const kMaxFileBytes = 256 * 1024;
export const kMaxTotalBytes = 1024 * 1024;
export const kMaxFiles = 8;

export type TextFile = Pick<File, 'name' | 'size' | 'arrayBuffer'>;

function kilobytes(bytes: number): string {
  return `${Math.ceil(bytes / 1024)} KiB`;
}

// What can be attached besides what is attached already, and why the rest cannot.
export async function readAttachments(files: readonly TextFile[], attached: readonly Attachment[]): Promise<{ added: Attachment[]; problems: string[] }> {
  const added: Attachment[] = [];
  const problems: string[] = [];
  let total = attached.reduce((sum, file) => sum + file.text.length, 0);
  for (const file of files) {
    if (attached.length + added.length >= kMaxFiles) {
      problems.push(`${file.name}: at most ${kMaxFiles} files can be attached to one message.`);
    } else if (file.size > kMaxFileBytes) {
      problems.push(`${file.name} is ${kilobytes(file.size)}; the limit is ${kilobytes(kMaxFileBytes)}.`);
    } else if (total + file.size > kMaxTotalBytes) {
      problems.push(`${file.name}: the files of one message are limited to ${kilobytes(kMaxTotalBytes)} in total.`);
    } else {
      const text = await textOf(file);
      if (text === null) problems.push(`${file.name} is not a text file in UTF-8.`);
      else added.push({ name: file.name.slice(0, 200), text });
      total += file.size;
    }
  }
  return { added, problems };
}

async function textOf(file: TextFile): Promise<string | null> {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
    return text.includes('\0') ? null : text;
  } catch {
    return null;
  }
}
