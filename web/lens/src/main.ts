import { App } from './app.ts';
import { startTheme } from './view/theme.ts';

const app = new App();
startTheme(() => app.themeChanged());
app.start();

// Offline, except where `ballast lens` serves the page: under an address of this machine that does not come back.
const isOwnServer = ['127.0.0.1', '[::1]', 'localhost'].includes(location.hostname);
if (import.meta.env.PROD && !isOwnServer && 'serviceWorker' in navigator) {
  navigator.serviceWorker.register('sw.js').catch(() => {}); // without it the page only needs a connection
}
