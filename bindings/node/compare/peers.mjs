// The test doubles to compare. `start` returns a double with its clients; `address` is undefined if
// other processes and other libraries cannot connect to it.

const IOREDIS = 'ioredis@6.0.0';

/**
 * @typedef {object} Double
 * @property {import('ioredis').Redis} client
 * @property {() => import('ioredis').Redis} newClient
 * @property {{ host: string, port: number } | undefined} address
 * @property {((ms: number) => Promise<unknown>) | undefined} advance
 * @property {((timers: any) => Promise<any>)} [moveWith] - Starts a server that moves with fake timers.
 * @property {() => Promise<unknown>} stop
 */

/**
 * The packages of a double, the clients to install beside it, and the way to start it. ioredis-mock
 * brings the version of ioredis that it imitates.
 */
export const peers = {
  '@punctual/server': {
    packages: [],
    clients: [IOREDIS],
    /** @param {object} options */
    async start(options = {}) {
      const { start } = await import('@punctual/server');
      const server = await start({ clock: 'virtual', notifyKeyspaceEvents: 'KEA', ...options });
      return connected(server, {
        advance: (ms) => server.advance(ms),
        moveWith: (timers) => start({ clock: 'virtual', timers }),
        stop: () => server.stop(),
      });
    },
  },
  'redis-memory-server': {
    packages: ['redis-memory-server@0.17.1'],
    clients: [IOREDIS],
    async start() {
      const { RedisMemoryServer } = await import('redis-memory-server');
      const server = new RedisMemoryServer({
        instance: { args: ['--notify-keyspace-events', 'KEA', '--save', ''] },
      });
      const address = { host: await server.getHost(), port: await server.getPort() };
      return connected(address, { stop: () => server.stop() });
    },
  },
  'ioredis-mock': {
    packages: ['ioredis-mock@8.13.1'],
    clients: [],
    async start() {
      const { default: RedisMock } = await import('ioredis-mock');
      const client = new RedisMock({ notifyKeyspaceEvents: 'KEA' });
      const all = [client];
      const newClient = () => {
        all.push(client.duplicate());
        return all.at(-1);
      };
      const stop = async () => {
        await client.flushall();
        for (const each of all) each.disconnect();
      };
      return { client, newClient, address: undefined, advance: undefined, stop };
    },
  },
};

/** Returns a double with ioredis's clients of a server. */
async function connected({ host, port }, { advance, moveWith, stop }) {
  const { Redis } = await import('ioredis');
  const all = [];
  const newClient = () => {
    const client = new Redis(port, host, { maxRetriesPerRequest: 0, lazyConnect: false });
    client.on('error', () => {});
    all.push(client);
    return client;
  };
  return {
    client: newClient(),
    newClient,
    address: { host, port },
    advance,
    moveWith,
    async stop() {
      for (const each of all) each.disconnect();
      await stop();
    },
  };
}
