// Bull: workers, retries, delayed, prioritised and repeated jobs, rate limits, stalled jobs, pause, progress, cleaning.
// Packages: bull
import Bull from "bull";
import { equal, fail, report, sleep, step, until, url } from "./verdict.js";

function start(name, options = {}) {
  const queue = new Bull(name, url, options);
  queue.on("error", fail);
  return queue;
}

report(async () => {
  step("a job's result and progress");
  let queue = start("basic");
  const progress = [];
  queue.on("global:progress", (_, value) => progress.push(Number(value)));
  await queue.isReady();
  queue.process(4, async (job) => {
    await job.progress(50);
    return job.data.n * 2;
  });
  const job = await queue.add({ n: 21 });
  equal(await job.finished(), 42);
  await until(() => progress.includes(50));
  step("bulk, pause and resume");
  await queue.pause();
  await queue.addBulk(Array.from({ length: 20 }, (_, n) => ({ data: { n } })));
  await sleep(100);
  equal(await queue.getPausedCount(), 20);
  await queue.resume();
  await until(async () => (await queue.getCompletedCount()) === 21);
  step("cleaning");
  await sleep(5);
  equal((await queue.clean(0, "completed")).length, 21);
  await queue.close();

  step("retries with backoff");
  queue = start("retries");
  let attempts = 0;
  queue.process(async () => {
    if (++attempts < 3) throw new Error("again");
    return attempts;
  });
  equal(await (await queue.add({}, { attempts: 3, backoff: 50 })).finished(), 3);
  attempts = -100;
  const lost = await queue.add({}, { attempts: 1 });
  await until(() => lost.isFailed());
  attempts = 10;
  await lost.retry();
  await until(() => lost.isCompleted());
  await queue.close();

  step("delayed jobs");
  queue = start("delayed");
  const ran = [];
  queue.process(async (job) => void ran.push([job.data.name, Date.now()]));
  const begun = Date.now();
  await queue.add({ name: "b" }, { delay: 600 });
  await queue.add({ name: "a" }, { delay: 200 });
  const promoted = await queue.add({ name: "now" }, { delay: 60000 });
  await promoted.promote();
  await until(() => ran.length === 3);
  equal(ran.map(([name]) => name), ["now", "a", "b"]);
  equal(ran[1][1] - begun >= 200 && ran[2][1] - begun >= 600, true);
  await queue.close();

  step("priorities");
  queue = start("priorities");
  for (const [name, options] of [["low", { priority: 3 }], ["high", { priority: 1 }], ["middle", { priority: 2 }]])
    await queue.add({ name }, options);
  const order = [];
  queue.process(async (job) => void order.push(job.data.name));
  await until(() => order.length === 3);
  equal(order, ["high", "middle", "low"]);
  await queue.close();

  step("repeated jobs");
  queue = start("repeated");
  let times = 0;
  queue.process(async () => ++times);
  await queue.add({}, { repeat: { every: 150, limit: 3 } });
  equal((await queue.getRepeatableJobs()).length, 1);
  await until(() => times === 3);
  await queue.add({}, { repeat: { cron: "0 0 1 1 *" } });
  await queue.removeRepeatable({ cron: "0 0 1 1 *" });
  await queue.close();

  step("rate limits");
  queue = start("limited", { limiter: { max: 2, duration: 400 } });
  const starts = [];
  queue.process(async () => void starts.push(Date.now()));
  await queue.addBulk(Array.from({ length: 5 }, () => ({ data: {} })));
  await until(() => starts.length === 5);
  equal(starts[4] - starts[0] >= 700, true);
  await queue.close();

  step("stalled jobs");
  queue = start("stalled", { settings: { stalledInterval: 100 } });
  const stalled = await queue.add({});
  await queue.getNextJob();
  await queue.client.del(stalled.lockKey());
  queue.process(async () => "rescued");
  await until(() => stalled.isCompleted());
  step("obliterate");
  await queue.obliterate({ force: true });
  equal((await queue.client.keys("bull:stalled:*")).length, 0);
});
