// TypeScript as an ECMAScript module: the types of each entry point, and of wrong options.
import { mock } from 'node:test';
import { type PunctualServer, type StartOptions, start } from '@punctual/server';
import { useServer } from '@punctual/server/jest';

const options: StartOptions = { clock: 'virtual', timers: mock.timers, save: [60, 1] };
await using server: PunctualServer = await start(options);
const time: number = await server.advance(1);
const lines: readonly string[] = server.logs;
// @ts-expect-error there is no such directive
await start({ maxmemori: 1 });
export { lines, time, useServer };
