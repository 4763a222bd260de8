/**
 * A server for each test of Vitest, as a fixture.
 *
 * @packageDocumentation
 */

import type { StartOptions } from './options.js';
import { type PunctualServer, start } from './server.js';

/**
 * Returns a fixture for Vitest's `test.extend`: a new, empty server for each test that uses it. Its
 * clock is virtual unless `clock: 'real'` is given.
 *
 * This module does not import Vitest: npm would ask the registry for Vitest and all that Vitest may
 * need, also for programs that do not use it.
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
