// BullMQ: workers, retries, delayed, prioritised and repeated jobs, deduplication, bulk, pause, progress, flows, rate limits,
// events, stalled jobs, cleaning.
// Packages: bullmq ioredis
import { FlowProducer, Queue, QueueEvents, UnrecoverableError, Worker } from "bullmq";
import { Redis } from "ioredis";
import { equal, fail, host, port, report, sleep, step, until } from "./verdict.js";

const connection = { host, port };
let queue, worker;

async function start(name, process, options = {}) {
  queue = new Queue(name, { connection });
  worker = process && new Worker(name, process, { connection, ...options });
  for (const part of [queue, worker]) part?.on("error", fail);
  await worker?.waitUntilReady();
}

async function stop() {
  await worker?.close();
  await queue.close();
}

report(async () => {
  step("a job's result, progress and events");
  await start("basic", async (job) => {
    await job.updateProgress(50);
    await job.log("half");
    return job.data.n * 2;
  });
  const events = new QueueEvents("basic", { connection });
  events.on("error", fail);
  await events.waitUntilReady();
  const seen = [];
  events.on("progress", ({ data }) => seen.push(data));
  const first = await queue.add("double", { n: 21 });
  equal(await first.waitUntilFinished(events, 10000), 42);
  equal(await first.getState(), "completed");
  equal((await queue.getJobLogs(first.id)).logs, ["half"]);
  await until(() => seen.includes(50));

  step("bulk and counts");
  const many = await queue.addBulk(Array.from({ length: 50 }, (_, n) => ({ name: "double", data: { n } })));
  await until(async () => (await queue.getCompletedCount()) === 51);
  equal((await queue.getJob(many[7].id)).returnvalue, 14);

  step("deduplication");
  await queue.pause();
  const one = await queue.add("double", { n: 1 }, { deduplication: { id: "same", ttl: 5000 } });
  const two = await queue.add("double", { n: 2 }, { deduplication: { id: "same", ttl: 5000 } });
  equal(one.id, two.id);
  equal((await queue.add("double", { n: 3 }, { jobId: "given" })).id, "given");
  step("pause and resume");
  await sleep(100);
  equal(await one.isCompleted(), false);
  await queue.resume();
  await until(() => one.isCompleted());
  step("cleaning");
  await until(async () => (await queue.getCompletedCount()) === 53);
  equal((await queue.clean(0, 1000, "completed")).length, 53);
  await events.close();
  await stop();

  step("retries with backoff");
  const attempts = [];
  await start("retries", async (job) => {
    attempts.push(job.data.kind);
    if (job.data.kind === "never") throw new UnrecoverableError("never");
    if (job.attemptsMade < 2) throw new Error("again");
    return "late";
  });
  const again = await queue.add("x", { kind: "again" }, { attempts: 3, backoff: { type: "exponential", delay: 50 } });
  const never = await queue.add("x", { kind: "never" }, { attempts: 3 });
  await until(() => again.isCompleted());
  await until(() => never.isFailed());
  equal(attempts.filter((kind) => kind === "never").length, 1);
  equal(attempts.filter((kind) => kind === "again").length, 3);
  const failed = (await queue.getFailed())[0];
  equal(failed.failedReason, "never");
  await failed.retry();
  await until(() => attempts.filter((kind) => kind === "never").length === 2);
  await stop();

  step("delayed jobs");
  const ran = [];
  await start("delayed", async (job) => ran.push([job.name, Date.now()]));
  const begun = Date.now();
  await queue.add("b", {}, { delay: 600 });
  await queue.add("a", {}, { delay: 200 });
  const promoted = await queue.add("now", {}, { delay: 60000 });
  equal(await queue.getDelayedCount(), 3);
  await promoted.promote();
  await until(() => ran.length === 3);
  equal(ran.map(([name]) => name), ["now", "a", "b"]);
  equal(ran[1][1] - begun >= 200 && ran[2][1] - begun >= 600, true);
  await stop();

  step("priorities and LIFO");
  await start("priorities");
  for (const [name, options] of [["low", { priority: 10 }], ["high", { priority: 1 }], ["first", {}], ["last", { lifo: true }]])
    await queue.add(name, {}, options);
  equal((await queue.getJobCounts("prioritized", "waiting")), { prioritized: 2, waiting: 2 });
  const order = [];
  worker = new Worker("priorities", async (job) => order.push(job.name), { connection });
  await until(() => order.length === 4);
  equal(order, ["last", "first", "high", "low"]);
  await stop();

  step("repeated jobs");
  let times = 0;
  await start("repeated", async () => ++times);
  await queue.upsertJobScheduler("every", { every: 150, limit: 3 }, { name: "tick" });
  await queue.upsertJobScheduler("cron", { pattern: "0 0 1 1 *" });
  equal((await queue.getJobSchedulers()).map(({ key }) => key).sort(), ["cron", "every"]);
  await until(() => times === 3);
  equal(await queue.removeJobScheduler("cron"), true);
  await stop();

  step("flows");
  await start("flow", async (job) => {
    if (job.name !== "parent") return job.data.n;
    return Object.values(await job.getChildrenValues()).reduce((sum, value) => sum + value, 0);
  });
  const flows = new FlowProducer({ connection });
  flows.on("error", fail);
  const children = [1, 2, 3].map((n) => ({ name: "child", queueName: "flow", data: { n }, opts: { delay: n * 30 } }));
  const { job: parent } = await flows.add({ name: "parent", queueName: "flow", children });
  equal(await parent.getState(), "waiting-children");
  await until(() => parent.isCompleted());
  equal((await queue.getJob(parent.id)).returnvalue, 6);
  const tree = await flows.getFlow({ id: parent.id, queueName: "flow" });
  equal(tree.children.length, 3);
  await flows.close();
  await stop();

  step("rate limits");
  const starts = [];
  await start("limited", async () => starts.push(Date.now()), { limiter: { max: 2, duration: 400 } });
  await queue.addBulk(Array.from({ length: 5 }, () => ({ name: "x", data: {} })));
  await until(() => starts.length === 5);
  // With this rate limit, the fifth job starts two windows after the first.
  equal(starts[4] - starts[0] >= 700, true);
  await queue.setGlobalConcurrency(4);
  equal(await queue.getGlobalConcurrency(), 4);
  await stop();

  step("stalled jobs");
  await start("stalled");
  const stalled = await queue.add("x", {});
  const dead = new Worker("stalled", null, { connection });
  await dead.getNextJob("token");
  equal(await stalled.getState(), "active");
  const redis = new Redis(port, host);
  equal(await redis.del(`bull:stalled:${stalled.id}:lock`), 1);
  worker = new Worker("stalled", async () => "rescued", { connection, stalledInterval: 100 });
  await until(() => stalled.isCompleted());
  await dead.close();
  step("drain and obliterate");
  await queue.add("x", {}, { delay: 60000 });
  await queue.drain(true);
  equal(await queue.getDelayedCount(), 0);
  await worker.close();
  await queue.obliterate({ force: true });
  equal(await redis.keys("bull:stalled:*"), []);
  await queue.close();
});
