import { App } from './app.ts';
import { isServed } from './served.ts';
import { startTheme } from './view/theme.ts';

const app = new App();
startTheme(() => app.themeChanged());
app.start();

// Offline, except where `ballast lens` serves the page: its address holds a secret and ends with the command, so a worker
// would only stay behind. Other programs on this machine share addresses, and one's worker must not answer for the next.
const isThisMachine = ['127.0.0.1', '[::1]', 'localhost'].includes(location.hostname);
if (import.meta.env.PROD && !isServed() && !isThisMachine && 'serviceWorker' in navigator) {
  navigator.serviceWorker.register('sw.js').catch(() => {}); // without it the page only needs a connection
}
