// The built files have fixed names, because a program embeds exactly these. Only comments and spaces are taken out: names
// stay, so that an error in somebody's browser can be understood.
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

import { defineConfig, type Plugin } from 'vite';

const isLater = (name: string): boolean => name === 'ballast-convert.wasm';

// The service worker knows every file of the page, and a digest of them all: another page is another cache.
function serviceWorker(): Plugin {
  return {
    name: 'service-worker',
    apply: 'build',
    generateBundle: { order: 'post', handler(_, bundle) {
      const names = [...Object.keys(bundle), 'icon.svg'].filter((name) => name !== 'index.html').sort(); // which is ./
      const digest = createHash('sha256');
      for (const item of Object.values(bundle)) digest.update(item.fileName).update(item.type === 'chunk' ? item.code : item.source);
      digest.update(readFileSync(new URL('public/icon.svg', import.meta.url)));
      const source = readFileSync(new URL('src/sw.js', import.meta.url), 'utf8')
        .replace("'FILES'", JSON.stringify(['./', ...names.filter((name) => !isLater(name))]))
        .replace("'LATER'", JSON.stringify(names.filter(isLater))).replace('VERSION', digest.digest('hex').slice(0, 16));
      this.emitFile({ type: 'asset', fileName: 'sw.js', source });
    } },
  };
}

// For static hosts, which send no policy. Any server may be read from, nothing may be sent by a form.
const kPolicy = "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
  "connect-src 'self' http: https:; base-uri 'none'; form-action 'none'";

function policy(): Plugin {
  return {
    name: 'policy',
    apply: 'build',
    transformIndexHtml: () => [{ tag: 'meta', attrs: { 'http-equiv': 'Content-Security-Policy', content: kPolicy }, injectTo: 'head-prepend' }],
  };
}

const names = {
  entryFileNames: '[name].js',
  chunkFileNames: '[name].js',
  assetFileNames: (asset: { names: string[] }) => (asset.names.some((name) => name.endsWith('.css')) ? 'style.css' : '[name][extname]'),
};

export default defineConfig({
  base: './', // also works under a path of its own
  esbuild: { minifyWhitespace: true, minifySyntax: false, minifyIdentifiers: false, legalComments: 'none' },
  worker: { format: 'es', rollupOptions: { output: { ...names, inlineDynamicImports: true } } },
  plugins: [policy(), serviceWorker()],
  build: {
    outDir: '../../apps/ballast/lens_page',
    emptyOutDir: true,
    target: 'es2022',
    cssTarget: 'esnext',
    minify: 'esbuild',
    cssMinify: false,
    modulePreload: false,
    assetsInlineLimit: 0,
    rollupOptions: { output: { ...names, entryFileNames: 'app.js', inlineDynamicImports: true } },
  },
});
