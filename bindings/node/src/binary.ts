/** The server's program: which file `start` executes. */

import { existsSync } from 'node:fs';

/**
 * Returns the path of the server's program: the given path, or the environment variable
 * `PUNCTUAL_BINARY`, or the file in the installed package of this platform.
 *
 * @throws Error if the file does not exist, or if the package of this platform is not installed.
 */
export function findBinary(given?: string): string {
  const path = given ?? process.env.PUNCTUAL_BINARY;
  if (path !== undefined && path !== '') {
    if (!existsSync(path)) {
      const source = given === undefined ? 'PUNCTUAL_BINARY' : "the option 'binary'";
      throw new Error(`@punctual/server: there is no file ${path}, which ${source} names`);
    }
    return path;
  }
  const platform = `${process.platform}-${process.arch}`;
  const name = `@punctual/server-${platform}`;
  try {
    return require.resolve(`${name}/bin/punctual`);
  } catch {
    throw new Error(
      `@punctual/server: the package ${name} is not installed. It is an optional dependency, so ` +
        `check that this platform (${platform}) has such a package, and that the package manager ` +
        `installs optional dependencies ('npm install --omit=optional' does not). ` +
        `Otherwise name a binary with the option 'binary' or the variable PUNCTUAL_BINARY.`,
    );
  }
}
