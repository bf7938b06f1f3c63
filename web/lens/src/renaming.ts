// "Find and replace" in the names of tensors, as a function of names.

export interface Renaming {
  rename: ((name: string) => string) | null; // null: nothing is to be renamed
  problem: string | null;
}

export function compileRenaming(find: string, replacement: string): Renaming {
  if (find === '') return { rename: null, problem: null };
  try {
    const expression = new RegExp(find, 'g');
    return { rename: (name) => name.replace(expression, replacement), problem: null };
  } catch (error) {
    return { rename: null, problem: error instanceof Error ? error.message : String(error) };
  }
}

// What the user sees before anything is written: how many names change, the first of them, and whether two become one.
export function previewOf(names: readonly string[], rename: (name: string) => string): string {
  const renamed = names.map(rename);
  const changed = names.findIndex((name, at) => name !== renamed[at]);
  if (changed < 0) return 'No name changes.';
  const count = names.reduce((sum, name, at) => sum + Number(name !== renamed[at]), 0);
  const twice = renamed.length - new Set(renamed).size;
  return `${count} of ${names.length} names change, such as ${names[changed]!} → ${renamed[changed]!}.${twice > 0 ? ` ${twice} would have a name that another tensor has.` : ''}`;
}
