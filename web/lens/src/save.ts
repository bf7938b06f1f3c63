// Files for the user: streamed to disk where the browser can, otherwise put together in memory and downloaded.

interface FilePicker {
  showSaveFilePicker?: (options: { suggestedName: string }) => Promise<{ createWritable: () => Promise<WritableStream<Uint8Array>> }>;
}

export interface Target {
  sink: WritableStream<Uint8Array>;
  isStreamed: boolean;
}

// Must be called from a click. Rejects with an AbortError where the user changed their mind.
export async function saveTarget(name: string): Promise<Target> {
  const { showSaveFilePicker } = window as unknown as FilePicker;
  if (showSaveFilePicker !== undefined) {
    const handle = await showSaveFilePicker.call(window, { suggestedName: name });
    return { sink: await handle.createWritable(), isStreamed: true };
  }
  const chunks: BlobPart[] = [];
  const sink = new WritableStream<Uint8Array>({
    write(chunk) {
      chunks.push(chunk.slice());
    },
    close() {
      download(new Blob(chunks), name);
    },
  });
  return { sink, isStreamed: false };
}

export function saveBytes(bytes: Uint8Array, name: string): void {
  download(new Blob([bytes.slice()]), name);
}

function download(blob: Blob, name: string): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  link.download = name;
  link.click();
  // The browser has begun by then.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
