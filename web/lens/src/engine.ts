// The one module that reads files, in a Worker: the page stays responsive whatever a file holds.

import { loadInWorker, type Ballast } from 'ballast-weights';

export type * from 'ballast-weights';

let started: Promise<Ballast> | null = null;

export function engine(): Promise<Ballast> {
  started ??= loadInWorker().catch((error: unknown) => {
    started = null; // such as a connection that broke: the next file tries again
    throw error;
  });
  return started;
}
