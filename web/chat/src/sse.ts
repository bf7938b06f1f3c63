// Server-sent events, as the answer of a streamed request: bytes in, the data of whole events out.

const kMaxEventChars = 16 * 1024 * 1024; // a server that never ends a line must not fill the memory of the browser

export class SseParser {
  private readonly decoder = new TextDecoder(); // keeps a character that the network cut in two
  private line = '';
  private data: string[] = [];
  private dataChars = 0;
  private afterReturn = false; // a line feed after a carriage return belongs to the same line end

  // The data of the events that these bytes complete.
  push(bytes: Uint8Array): string[] {
    const text = this.decoder.decode(bytes, { stream: true });
    const events: string[] = [];
    let start = 0;
    for (let i = 0; i < text.length; ++i) {
      const char = text[i];
      const isSecondHalf = char === '\n' && this.afterReturn;
      this.afterReturn = char === '\r';
      if (isSecondHalf) {
        start = i + 1;
      } else if (char === '\n' || char === '\r') {
        this.endLine(this.line + text.slice(start, i), events);
        this.line = '';
        start = i + 1;
      }
    }
    this.line += text.slice(start);
    if (this.line.length + this.dataChars > kMaxEventChars) {
      throw new Error(`The server sent one event of more than ${kMaxEventChars} characters.`);
    }
    return events;
  }

  private endLine(line: string, events: string[]): void {
    if (line === '') {
      if (this.data.length > 0) events.push(this.data.join('\n'));
      this.data = [];
      this.dataChars = 0;
    } else if (line === 'data' || line.startsWith('data:')) {
      const value = line.slice(5);
      this.data.push(value.startsWith(' ') ? value.slice(1) : value);
      this.dataChars += line.length;
    } // comments (": ping") and other fields say nothing that this page needs
  }
}
