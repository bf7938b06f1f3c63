// Keeps the page for when there is no connection. Only its own files: weights are never stored, nor asked for here.

const kCache = 'ballast-lens-37cb916d17e8e874';
const kFiles = ["./","app.js","ballast.wasm","icon.svg","style.css","worker.js"];

self.addEventListener('install', (event) => {
  event.waitUntil(caches.open(kCache).then((cache) => cache.addAll(kFiles)).then(() => self.skipWaiting()));
});

self.addEventListener('activate', (event) => {
  event.waitUntil(caches.keys()
    .then((names) => Promise.all(names.filter((name) => name.startsWith('ballast-lens-') && name !== kCache).map((name) => caches.delete(name))))
    .then(() => self.clients.claim()));
});

self.addEventListener('fetch', (event) => {
  const { method, url, headers } = event.request;
  const asked = url.replace(/index\.html$/, '');
  const isOwn = kFiles.some((file) => new URL(file, self.registration.scope).href === asked);
  if (!isOwn || method !== 'GET' || headers.has('range')) return;
  event.respondWith(caches.open(kCache).then((cache) => cache.match(asked)).then((kept) => kept ?? fetch(event.request)));
});
