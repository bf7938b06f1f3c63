// The built files have fixed names, because the server embeds exactly these. Only comments and spaces are
// taken out: names stay, so that an error in somebody's browser can be understood.
import { defineConfig } from 'vite';

const server = process.env['BALLAST_SERVER'] ?? 'http://127.0.0.1:8080';

export default defineConfig({
  base: './', // also works behind a proxy that serves the page under a path of its own
  server: { proxy: { '/v1': server, '/props': server } },
  esbuild: { minifyWhitespace: true, minifySyntax: false, minifyIdentifiers: false, legalComments: 'none' },
  build: {
    outDir: '../../apps/ballast/server/page',
    emptyOutDir: true,
    target: 'es2022',
    cssTarget: 'esnext',
    minify: 'esbuild',
    cssMinify: false,
    modulePreload: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: {
        entryFileNames: 'app.js',
        assetFileNames: (asset) => (asset.names.some((name) => name.endsWith('.css')) ? 'style.css' : '[name][extname]'),
        inlineDynamicImports: true,
      },
    },
  },
});
