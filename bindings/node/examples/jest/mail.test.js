const { once } = require('node:events');
const { useServer } = require('@punctual/server/jest');
const { Queue, Worker } = require('bullmq');

jest.useFakeTimers({ doNotFake: ['nextTick', 'setImmediate', 'queueMicrotask'] });
const server = useServer({ timers: jest });

test('BullMQ runs a job that is delayed by an hour', async () => {
  const connection = { host: server.host, port: server.port };
  const queue = new Queue('mail', { connection });
  const worker = new Worker('mail', async (job) => `to ${job.data.to}`, { connection });
  const completed = once(worker, 'completed');
  await queue.add('send', { to: 'alice' }, { delay: 3_600_000 });
  await server.advance(3_600_000);
  expect((await completed)[0].returnvalue).toBe('to alice');
  await worker.close();
  await queue.close();
});
