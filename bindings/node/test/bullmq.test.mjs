// BullMQ on a virtual clock: its delays follow Node's date as well as the server's clock, so fake
// timers move with the server.
import { deepEqual, equal } from 'node:assert/strict';
import { once } from 'node:events';
import { mock, test } from 'node:test';
import { start } from '@punctual/server';
import { Queue, QueueEvents, Worker } from 'bullmq';

const HOUR_MS = 3_600_000;

test('a job that is delayed by an hour runs after an hour of the clock', async (t) => {
  mock.timers.enable({ apis: ['Date', 'setTimeout', 'setInterval'], now: Date.now() });
  const server = await start({ clock: 'virtual', timers: mock.timers });
  t.after(() => server.stop());
  equal(Date.now(), await server.now());
  const connection = { host: server.host, port: server.port };
  const queue = new Queue('mail', { connection });
  const events = new QueueEvents('mail', { connection });
  await events.waitUntilReady();
  /** @type {number[]} */
  const ran = [];
  const worker = new Worker(
    'mail',
    async (job) => {
      ran.push(Date.now());
      return `to ${job.data.to}`;
    },
    { connection },
  );
  await worker.waitUntilReady();
  const first = once(worker, 'completed');
  await queue.add('send', { to: 'bob' }, { delay: HOUR_MS });
  // The worker may not wait yet, and must not miss the jump.
  await server.advance(HOUR_MS);
  equal((await first)[0].returnvalue, 'to bob');

  const began = Date.now();
  const job = await queue.add('send', { to: 'alice' }, { delay: HOUR_MS });
  equal(await job.getState(), 'delayed');

  await server.advance(HOUR_MS - 1);
  equal(await job.getState(), 'delayed');
  const completed = once(worker, 'completed');
  await server.advance(1);
  const [done] = await completed;
  equal(done.returnvalue, 'to alice');
  deepEqual(ran, [began, began + HOUR_MS]);

  await worker.close();
  await events.close();
  await queue.close();
  mock.timers.reset();
});
