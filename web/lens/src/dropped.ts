// Files that were dropped, of folders too, with their paths.

export interface PathFile {
  path: string;
  file: File;
}

const kMostFiles = 5000; // a home folder dropped by mistake is not read to its end

export function chosenFiles(files: Iterable<File>): PathFile[] {
  return [...files].slice(0, kMostFiles).map((file) => ({ path: file.webkitRelativePath || file.name, file }));
}

// Must be called within the event: the list of items is empty afterwards.
export async function droppedFiles(items: DataTransferItemList): Promise<PathFile[]> {
  const entries = [...items].filter(({ kind }) => kind === 'file').map((item) => ({ entry: item.webkitGetAsEntry(), file: item.getAsFile() }));
  const found: PathFile[] = [];
  for (const { entry, file } of entries) {
    if (entry?.isDirectory === true) await walk(entry as FileSystemDirectoryEntry, found);
    else if (file !== null) found.push({ path: file.name, file });
  }
  return found;
}

async function walk(folder: FileSystemDirectoryEntry, found: PathFile[]): Promise<void> {
  const reader = folder.createReader();
  for (;;) {
    const entries = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject)); // some at a time
    if (entries.length === 0 || found.length >= kMostFiles) return;
    for (const entry of entries) {
      if (entry.isDirectory) await walk(entry as FileSystemDirectoryEntry, found);
      else {
        const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
        found.push({ path: entry.fullPath.replace(/^\//, ''), file });
      }
      if (found.length >= kMostFiles) return;
    }
  }
}
