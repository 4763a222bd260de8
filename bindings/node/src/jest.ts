/**
 * A server for each test, in frameworks with the global functions `beforeEach` and `afterEach`:
 * Jest, Mocha, and Vitest with `globals: true`.
 *
 * @packageDocumentation
 */

import type { StartOptions } from './options.js';
import { type PunctualServer, start } from './server.js';

/** Functions of the test framework. */
export interface Hooks {
  beforeEach(hook: () => Promise<void>): unknown;
  afterEach(hook: () => Promise<void>): unknown;
}

/**
 * Starts a new, empty server before each test of the file or `describe` block, and stops it after
 * the test. Its clock is virtual unless `clock: 'real'` is given. The returned object always stands
 * for the server of the current test.
 *
 * @param hooks - The framework's functions, if they are not global.
 */
export function useServer(
  options: StartOptions = {},
  hooks: Hooks = globalThis as unknown as Hooks,
): PunctualServer {
  let current: PunctualServer | undefined;
  hooks.beforeEach(async () => {
    current = await start({ clock: 'virtual', ...options });
  });
  hooks.afterEach(async () => {
    await current?.stop();
    current = undefined;
  });
  return new Proxy({} as PunctualServer, {
    get(_, name) {
      if (current === undefined) {
        throw new Error('@punctual/server: a server runs only during a test');
      }
      const value: unknown = Reflect.get(current, name, current);
      return typeof value === 'function' ? value.bind(current) : value;
    },
  });
}
