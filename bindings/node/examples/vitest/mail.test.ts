import { once } from 'node:events';
import { serverFixture } from '@punctual/server/vitest';
import { Queue, Worker } from 'bullmq';
import { test as base, expect, vi } from 'vitest';

vi.useFakeTimers({
  toFake: ['Date', 'setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'],
});
const test = base.extend({ server: serverFixture({ timers: vi }) });

test('BullMQ runs a job that is delayed by an hour', async ({ server }) => {
  const connection = { host: server.host, port: server.port };
  const queue = new Queue('mail', { connection });
  const worker = new Worker('mail', async (job) => `to ${job.data.to}`, { connection });
  await worker.waitUntilReady();
  const job = await queue.add('send', { to: 'alice' }, { delay: 3_600_000 });
  await server.advance(3_599_999);
  expect(await job.getState()).toBe('delayed');
  const completed = once(worker, 'completed');
  await server.advance(1);
  expect((await completed)[0].returnvalue).toBe('to alice');
  await worker.close();
  await queue.close();
});
