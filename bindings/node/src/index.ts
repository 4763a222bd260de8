/**
 * A Redis-compatible server for tests, with a clock that the test moves.
 *
 * @packageDocumentation
 */

export type { DirectiveName } from './directives.js';
export type { DirectiveValue, OwnOptions, StartOptions, Word } from './options.js';
export { type PunctualServer, start } from './server.js';
export type { FakeTimers } from './timers.js';
