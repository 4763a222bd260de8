// TypeScript as CommonJS.
import punctual = require('@punctual/server');
import jest = require('@punctual/server/jest');

const server: Promise<punctual.PunctualServer> = punctual.start({ notifyKeyspaceEvents: 'Ex' });
// @ts-expect-error the time is in milliseconds, as a number
server.then((started) => started.advance('1h'));
export const each = jest.useServer({ clock: 'real' });
