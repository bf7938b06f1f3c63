// What `ballast lens` says of itself in the page: a list of the files that it serves, which may be empty. Any other server
// has no list, and then nothing is fetched.

export interface ServedFile {
  name: string;
  size: number;
  url: URL;
}

function listName(): string | null {
  return document.querySelector('meta[name="ballast-files"]')?.getAttribute('content') ?? null;
}

export function isServed(): boolean {
  return listName() !== null;
}

export async function servedFiles(): Promise<ServedFile[]> {
  const list = listName();
  if (list === null) return [];
  const at = new URL(list, document.baseURI);
  const response = await fetch(at, { cache: 'no-store' });
  if (!response.ok) throw new Error(`The list of files could not be read: the server answered ${response.status}.`);
  return parseList(await response.json(), at);
}

export function parseList(list: unknown, base: URL): ServedFile[] {
  const { files } = (list ?? {}) as { files?: unknown };
  if (!Array.isArray(files)) throw new Error('The list of files has no entry "files".');
  return files.map((file: { name?: unknown; size?: unknown; url?: unknown }) => {
    if (typeof file.name !== 'string' || typeof file.size !== 'number' || typeof file.url !== 'string') {
      throw new Error('A file in the list lacks its name, size or URL.');
    }
    return { name: file.name, size: file.size, url: new URL(file.url, base) };
  });
}
