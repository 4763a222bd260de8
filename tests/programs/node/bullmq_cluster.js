// BullMQ on a cluster: jobs, retries, delayed jobs, events and flows of a prefix with a hash tag, while its slot moves and its
// primary is killed.
// Packages: bullmq ioredis
import { FlowProducer, Queue, QueueEvents, Worker } from "bullmq";
import { Cluster } from "ioredis";
import { control, equal, host, port, report, sleep, step, until } from "./verdict.js";

const prefix = "{moved}";
const connect = () => {
  const cluster = new Cluster([{ host, port }], { redisOptions: { maxRetriesPerRequest: null } });
  cluster.on("error", (error) => console.log(`cluster: ${error.message}`));
  return cluster;
};
const again = (error) => console.log(`again: ${error.message}`);

report(async () => {
  step("jobs, retries and events");
  const queue = new Queue("jobs", { connection: connect(), prefix });
  const done = new Set();
  const worker = new Worker("jobs", async (job) => {
    if (job.data.fails && job.attemptsMade < 1) throw new Error("once");
    done.add(job.id);
    return job.data.n * 2;
  }, { connection: connect(), prefix, concurrency: 4 });
  const events = new QueueEvents("jobs", { connection: connect(), prefix });
  for (const part of [queue, worker, events]) part.on("error", again);
  await events.waitUntilReady();
  const job = await queue.add("double", { n: 21 });
  equal(await job.waitUntilFinished(events, 10000), 42);
  const retried = await queue.add("double", { n: 1, fails: true }, { attempts: 2 });
  equal(await retried.waitUntilFinished(events, 10000), 2);
  const delayed = await queue.add("double", { n: 2 }, { delay: 100 });
  equal(await delayed.waitUntilFinished(events, 10000), 4);
  step("flows");
  const flows = new FlowProducer({ connection: connect(), prefix });
  const children = [1, 2, 3].map((n) => ({ name: "double", queueName: "jobs", data: { n } }));
  const flow = await flows.add({ name: "double", queueName: "jobs", data: { n: 5 }, children });
  equal(await flow.job.waitUntilFinished(events, 10000), 10);

  // Adds jobs until they are acknowledged. A job has an id, so a repeated one is not added twice.
  let stopped = false;
  const acknowledged = [];
  const producer = (async () => {
    while (!stopped) {
      const jobId = `job-${acknowledged.length}`;
      try {
        await queue.add("double", { n: 1 }, { jobId });
        acknowledged.push(jobId);
      } catch (error) {
        again(error);
        await sleep(10);
      }
    }
  })();
  const more = async (count) => {
    const goal = acknowledged.length + count;
    await until(() => acknowledged.length >= goal, 30);
  };
  step("the slot moves");
  await more(50);
  await control("move {moved} redirected");
  await more(50);
  await control("replicated");
  const safe = [...acknowledged];
  step("the primary is killed");
  await control("kill {moved}");
  await more(50);
  stopped = true;
  await producer;
  step("all acknowledged jobs");
  await until(() => safe.every((id) => done.has(id)), 30);
  await until(() => done.has(acknowledged.at(-1)), 30);
});
