// What Markdown is parsed into. Plain data: only render.ts makes elements of it.

export type Inline =
  | { kind: 'text'; text: string }
  | { kind: 'code'; text: string }
  | { kind: 'break' }
  | { kind: 'em' | 'strong' | 'del'; children: Inline[] }
  | { kind: 'link'; href: string; children: Inline[] };

export type Align = 'left' | 'center' | 'right' | null;

export interface ListItem {
  isDone: boolean | null; // of a task; null: no task
  blocks: Block[];
}

export type Block =
  | { kind: 'paragraph'; inlines: Inline[] }
  | { kind: 'heading'; level: number; inlines: Inline[] }
  | { kind: 'code'; language: string; text: string }
  | { kind: 'quote'; blocks: Block[] }
  | { kind: 'list'; start: number | null; items: ListItem[] } // start of a numbered list; null: bullets
  | { kind: 'table'; align: Align[]; head: Inline[][]; rows: Inline[][][] }
  | { kind: 'rule' };

// Deeper nesting is shown as it was written. It bounds the recursion, here and in the browser's layout.
export const kMaxDepth = 16;
