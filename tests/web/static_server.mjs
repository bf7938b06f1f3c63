// Serves the built page, and files by ranges, on a free port: as a static host does, or as `ballast lens` with its list.

import { createReadStream, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';

const kTypes = { html: 'text/html; charset=utf-8', js: 'text/javascript', css: 'text/css', svg: 'image/svg+xml', wasm: 'application/wasm' };

export class StaticServer {
  requests = []; // paths with their ranges
  files = new Map(); // path of a request -> path on disk
  list = null; // what files.json says: then index.html names it

  constructor(folder) {
    this.folder = folder;
    this.server = createServer((request, response) => this.answer(request, response));
  }

  async start() {
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    this.port = this.server.address().port;
    this.url = `http://127.0.0.1:${this.port}/`;
    return this;
  }

  stop() {
    this.server.closeAllConnections();
    this.server.close();
  }

  answer(request, response) {
    const path = new URL(request.url, this.url).pathname;
    this.requests.push({ path, range: request.headers.range ?? null });
    if (this.files.has(path)) return this.sendRange(request, response, this.files.get(path));
    if (path === '/files.json' && this.list !== null) return this.send(response, 'application/json', JSON.stringify({ files: this.list }));
    const name = path === '/' ? 'index.html' : path.slice(1);
    try {
      const type = kTypes[name.split('.').at(-1)];
      if (type === undefined || name.includes('/')) throw new Error('no file of the page');
      let body = readFileSync(join(this.folder, name));
      if (name === 'index.html' && this.list !== null) body = body.toString().replace('<head>', '<head><meta name="ballast-files" content="files.json">');
      this.send(response, type, body);
    } catch {
      response.writeHead(404).end();
    }
  }

  send(response, type, body) {
    response.writeHead(200, { 'content-type': type, 'cache-control': 'no-store' }).end(body);
  }

  sendRange(request, response, file) {
    const { size } = statSync(file);
    const range = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '');
    const headers = { 'content-type': 'application/octet-stream', 'accept-ranges': 'bytes', 'cache-control': 'no-store' };
    if (range === null) {
      response.writeHead(200, { ...headers, 'content-length': size });
      return createReadStream(file).pipe(response);
    }
    const [begin, end] = [Number(range[1]), Math.min(size - 1, Number(range[2]))];
    if (begin >= size) return response.writeHead(416, { 'content-range': `bytes */${size}` }).end();
    response.writeHead(206, { ...headers, 'content-range': `bytes ${begin}-${end}/${size}`, 'content-length': end - begin + 1 });
    createReadStream(file, { start: begin, end }).pipe(response);
  }
}
