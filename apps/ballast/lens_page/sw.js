// Keeps the page for when there is no connection. Only its own files: weights are never stored, nor asked for here.

const kCache = 'ballast-lens-0076022393fa129d';
const kFiles = ["./","app.js","ballast.wasm","icon.svg","style.css","worker.js"];
const kLaterFiles = ["ballast-convert.wasm"]; // large, and not for every visit: kept when they are first asked for

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
  const isAmong = (files) => files.some((file) => new URL(file, self.registration.scope).href === asked);
  const isLater = isAmong(kLaterFiles);
  if ((!isLater && !isAmong(kFiles)) || method !== 'GET' || headers.has('range')) return;
  event.respondWith(caches.open(kCache).then(async (cache) => {
    const kept = await cache.match(asked);
    if (kept !== undefined) return kept;
    const answer = await fetch(event.request);
    if (isLater && answer.ok) await cache.put(asked, answer.clone());
    return answer;
  }));
});
