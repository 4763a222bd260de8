/**
 * A server for each test of Vitest, as a fixture.
 *
 * @packageDocumentation
 */

import { test as base, type TestAPI } from 'vitest';
import type { StartOptions } from './options.js';
import { type PunctualServer, start } from './server.js';

/**
 * Returns a fixture for `test.extend`: a new, empty server for each test that uses it. Its clock is
 * virtual unless `clock: 'real'` is given.
 */
export function serverFixture(options: StartOptions = {}) {
  // Vitest reads the names of other fixtures from the braces, which must be there.
  // biome-ignore lint/correctness/noEmptyPattern: see above
  return async ({}: object, use: (server: PunctualServer) => Promise<void>): Promise<void> => {
    const server = await start({ clock: 'virtual', ...options });
    try {
      await use(server);
    } finally {
      await server.stop();
    }
  };
}

/** Vitest's `test` with the fixture `punctual`, a server with a virtual clock. */
export const test: TestAPI<{ punctual: PunctualServer }> = base.extend<{
  punctual: PunctualServer;
}>({ punctual: serverFixture() });
