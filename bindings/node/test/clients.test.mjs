// ioredis and node-redis on a virtual clock, and a server for each test.
import { deepEqual, equal, notEqual } from 'node:assert/strict';
import { once } from 'node:events';
import { afterEach, beforeEach, describe, test } from 'node:test';
import { start } from '@punctual/server';
import { useServer } from '@punctual/server/jest';
import { Redis } from 'ioredis';
import { createClient } from 'redis';

const MONTH_MS = 30 * 86_400_000;

test('ioredis sees expiry events, and timeouts of blocking commands', async (t) => {
  const server = await start({ clock: 'virtual', notifyKeyspaceEvents: 'Ex' });
  t.after(() => server.stop());
  const redis = new Redis(server.url);
  const events = redis.duplicate();
  await events.subscribe('__keyevent@0__:expired');
  await redis.set('b', '', 'PX', MONTH_MS + 1);
  await redis.set('a', '', 'PX', MONTH_MS);
  /** @type {string[]} */
  const expired = [];
  events.on('message', (_, key) => expired.push(key));
  const blocked = redis.blpop('queue', 60);
  // The reply to a later command shows that the server has read BLPOP.
  const other = redis.duplicate();
  while (!String(await other.client('LIST')).includes('cmd=blpop'));
  await server.advance(MONTH_MS + 1);
  equal(await blocked, null);
  await events.ping();
  deepEqual(expired, ['a', 'b']);
  redis.disconnect();
  other.disconnect();
  events.disconnect();
});

test('node-redis sees exact TTLs, scripts and streams', async (t) => {
  const server = await start({ clock: 'virtual' });
  t.after(() => server.stop());
  const redis = createClient({ url: server.url });
  await redis.connect();
  await redis.set('limit', 1, { expiration: { type: 'PX', value: 1000 } });
  await server.advance(999);
  equal(await redis.pTTL('limit'), 1);
  const count = { keys: ['limit'], arguments: [] };
  equal(await redis.eval("return redis.call('INCR', KEYS[1])", count), 2);
  await server.advance(1);
  equal(await redis.eval("return redis.call('INCR', KEYS[1])", count), 1);
  const id = await redis.xAdd('stream', '*', { field: 'value' });
  equal(id, `${await server.now()}-0`);
  await redis.close();
});

describe('useServer', () => {
  const server = useServer({}, { beforeEach, afterEach });
  const ports = new Set();

  for (const round of [1, 2]) {
    test(`has a new server in test ${round}`, async () => {
      const redis = new Redis(server.url);
      equal(await redis.dbsize(), 0);
      await redis.set('key', round, 'EX', 60);
      await server.advance(60_000);
      equal(await redis.get('key'), null);
      await redis.set('key', round);
      ports.add(server.pid);
      equal(ports.size, round);
      const [closed] = [once(redis, 'close'), redis.disconnect()];
      await closed;
    });
  }

  test('has the properties of the server', () => {
    notEqual(server.port, 0);
    equal(server.url, `redis://${server.host}:${server.port}`);
  });
});

test('useServer has no server outside of a test', () => {
  const server = useServer({}, { beforeEach() {}, afterEach() {} });
  let message = '';
  try {
    server.port;
  } catch (error) {
    message = String(error);
  }
  equal(message, 'Error: @punctual/server: a server runs only during a test');
});
