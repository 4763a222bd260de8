// What a test may need of a Redis. Each probe fails if the double does not do what Redis does.
import { deepEqual, equal, ok, rejects } from 'node:assert/strict';
import { once } from 'node:events';

const HOUR_MS = 3_600_000;

/** @type {Record<string, (double: import('./peers.mjs').Double) => Promise<unknown>>} */
export const features = {
  async 'strings, hashes, sorted sets, SCAN'({ client }) {
    await client.hset('hash', { a: 1, b: 2 });
    deepEqual(await client.hgetall('hash'), { a: '1', b: '2' });
    await client.zadd('sorted', 1, 'one', 2, 'two');
    deepEqual(await client.zrange('sorted', 0, -1, 'REV', 'WITHSCORES'), ['two', '2', 'one', '1']);
    const [cursor, keys] = await client.scan(0, 'MATCH', 'sort*', 'COUNT', 1000);
    deepEqual([cursor, keys], ['0', ['sorted']]);
  },
  async 'errors of Redis (WRONGTYPE)'({ client }) {
    await client.set('string', 'x');
    await rejects(client.lpush('string', 'x'), /WRONGTYPE Operation against a key/);
  },
  async 'a key ends at its millisecond'({ client, advance }) {
    if (advance) {
      await client.set('key', 'x', 'PX', 1000);
      await advance(999);
      equal(await client.get('key'), 'x');
      await advance(1);
      equal(await client.get('key'), null);
      return;
    }
    const deadline = Date.now() + 20;
    await client.set('key', 'x', 'PXAT', deadline);
    while ((await client.get('key')) !== null);
    ok(Date.now() >= deadline);
  },
  async 'the event of an expiry that nobody reads'({ client, newClient, advance }) {
    const events = newClient();
    await events.subscribe('__keyevent@0__:expired');
    const event = once(events, 'message');
    await client.set('key', 'x', 'PX', 20);
    await advance?.(20);
    equal((await event)[1], 'key');
  },
  async 'a clock that skips a month'({ client, advance }) {
    ok(advance);
    await client.set('key', 'x', 'EX', 30 * 86_400);
    await advance(30 * 86_400_000);
    equal(await client.get('key'), null);
  },
  async 'WATCH, MULTI, EXEC'({ client, newClient }) {
    await client.watch('key');
    await newClient().set('key', 'changed');
    equal(await client.multi().set('key', 'mine').exec(), null);
    deepEqual(await client.multi().incr('n').incr('n').exec(), [
      [null, 1],
      [null, 2],
    ]);
  },
  async EVAL({ client }) {
    const script = "redis.call('SET', KEYS[1], ARGV[1]); return redis.call('STRLEN', KEYS[1])";
    equal(await client.eval(script, 1, 'key', 'four'), 4);
  },
  async 'cjson and cmsgpack in scripts'({ client }) {
    const script = 'return {cmsgpack.unpack(cmsgpack.pack(7)), cjson.encode({a = 1})}';
    deepEqual(await client.eval(script, 0), [7, '{"a":1}']);
  },
  async 'FUNCTION and FCALL'({ client }) {
    const library = "#!lua name=lib\nredis.register_function('two', function() return 2 end)";
    await client.function('LOAD', library);
    equal(await client.fcall('two', 0), 2);
  },
  async 'streams with consumer groups'({ client }) {
    await client.xgroup('CREATE', 'stream', 'group', '$', 'MKSTREAM');
    const id = await client.xadd('stream', '*', 'a', '1');
    const read = await client.xreadgroup('GROUP', 'group', 'me', 'STREAMS', 'stream', '>');
    deepEqual(read, [['stream', [[id, ['a', '1']]]]]);
    equal((await client.xpending('stream', 'group'))[0], 1);
    const claimed = await client.xautoclaim('stream', 'group', 'other', 0, '0');
    equal(claimed[1][0][0], id);
    equal(await client.xack('stream', 'group', id), 1);
  },
  async 'BLPOP, served and timed out'({ client, newClient, advance }) {
    const waiting = newClient();
    const served = waiting.blpop('list', 5);
    await client.rpush('list', 'x');
    deepEqual(await served, ['list', 'x']);
    const late = waiting.blpop('list', 0.1);
    if (advance) {
      while (!String(await client.client('LIST')).includes('cmd=blpop'));
      await advance(100);
    }
    equal(await late, null);
  },
  async 'TTLs of hash fields'({ client, advance }) {
    await client.hset('fields', 'a', '1', 'b', '2');
    deepEqual(await client.call('HPEXPIRE', 'fields', '20', 'FIELDS', '1', 'a'), [1]);
    await advance?.(20);
    while ((await client.hget('fields', 'a')) !== null);
    equal(await client.hget('fields', 'b'), '2');
  },
  async 'users and their rules (ACL)'({ client, newClient }) {
    await client.acl('SETUSER', 'reader', 'on', '>pw', '~*', '+get');
    const reader = newClient();
    await reader.auth('reader', 'pw');
    await reader.get('key');
    await rejects(reader.set('key', 'x'), /NOPERM/);
  },
  async 'RESP3, client-side caching'({ client }) {
    const hello = await client.call('HELLO', '2');
    ok(hello.includes('proto'));
    equal(await client.client('TRACKING', 'ON', 'BCAST', 'PREFIX', 'never'), 'OK');
    equal(await client.client('TRACKING', 'OFF'), 'OK');
  },
  async 'node-redis connects'({ address }) {
    ok(address);
    const { createClient } = await import('redis');
    const redis = createClient({ socket: address });
    await redis.connect();
    equal(await redis.ping(), 'PONG');
    await redis.close();
  },
  async 'BullMQ runs a job'({ address, client }) {
    const { Queue, Worker } = await import('bullmq');
    const connection = address ?? client;
    const queue = new Queue('now', { connection });
    const worker = new Worker('now', async (job) => job.data.n * 2, { connection });
    for (const part of [queue, worker]) part.on('error', () => {});
    try {
      const done = once(worker, 'completed');
      await queue.add('double', { n: 21 });
      equal((await done)[0].returnvalue, 42);
    } finally {
      await Promise.race([Promise.all([worker.close(true), queue.close()]), pause(500)]);
    }
  },
  async 'BullMQ runs a job of the next hour, at once'({ address, advance, moveWith }) {
    ok(address && advance && moveWith);
    const { mock } = await import('node:test');
    const { Queue, Worker } = await import('bullmq');
    mock.timers.enable({ apis: ['Date'], now: Date.now() });
    const server = await moveWith(mock.timers);
    try {
      const connection = { host: server.host, port: server.port };
      const queue = new Queue('later', { connection });
      const worker = new Worker('later', async (job) => job.data.n * 2, { connection });
      const done = once(worker, 'completed');
      await queue.add('double', { n: 21 }, { delay: HOUR_MS });
      await server.advance(HOUR_MS);
      equal((await done)[0].returnvalue, 42);
      await worker.close(true);
      await queue.close();
    } finally {
      mock.timers.reset();
      await server.stop();
    }
  },
};

/** @param {number} ms */
function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
