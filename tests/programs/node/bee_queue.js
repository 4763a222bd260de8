// bee-queue: workers, retries with backoff, delayed jobs, progress, stalled jobs, health.
// Packages: bee-queue
import Queue from "bee-queue";
import { equal, fail, host, port, report, step, until } from "./verdict.js";

function start(name, options = {}) {
  const queue = new Queue(name, { redis: { host, port }, activateDelayedJobs: true, ...options });
  queue.on("error", fail);
  return queue;
}

const finished = (job) =>
  new Promise((resolve, reject) => {
    job.on("succeeded", resolve);
    job.on("failed", reject);
  });

report(async () => {
  step("a job's result and progress");
  let queue = start("basic");
  await queue.ready();
  queue.process(3, async (job) => {
    job.reportProgress({ half: true });
    return job.data.n * 2;
  });
  const job = queue.createJob({ n: 21 });
  const progress = new Promise((resolve) => job.on("progress", resolve));
  const result = finished(job);
  await job.save();
  equal(await progress, { half: true });
  equal(await result, 42);
  step("bulk and health");
  await queue.saveAll(Array.from({ length: 20 }, (_, n) => queue.createJob({ n })));
  await until(async () => (await queue.checkHealth()).succeeded === 21);
  equal((await queue.getJobs("succeeded", { size: 100 })).length, 21);
  await queue.removeJob(job.id);
  equal((await queue.checkHealth()).succeeded, 20);
  await queue.close();

  step("retries with backoff");
  queue = start("retries");
  let attempts = 0;
  queue.process(async () => {
    if (++attempts < 3) throw new Error("again");
    return attempts;
  });
  await queue.createJob({}).retries(2).backoff("fixed", 100).save();
  await until(async () => (await queue.checkHealth()).succeeded === 1);
  equal(attempts, 3);
  await queue.close();

  step("delayed jobs");
  queue = start("delayed");
  const ran = [];
  queue.process(async (job) => void ran.push([job.data.name, Date.now()]));
  const begun = Date.now();
  await queue.createJob({ name: "b" }).delayUntil(begun + 600).save();
  await queue.createJob({ name: "a" }).delayUntil(begun + 200).save();
  equal((await queue.checkHealth()).delayed, 2);
  await until(() => ran.length === 2);
  equal(ran.map(([name]) => name), ["a", "b"]);
  equal(ran[0][1] >= begun + 200 && ran[1][1] >= begun + 600, true);
  await queue.close();

  step("stalled jobs");
  const dead = start("stalled", { stallInterval: 100 });
  dead.process(() => new Promise(() => {}));
  const stalled = await dead.createJob({}).save();
  await until(async () => (await dead.checkHealth()).active === 1);
  await dead.close(1).catch(() => {});
  queue = start("stalled", { stallInterval: 100 });
  queue.process(async () => "rescued");
  await until(async () => {
    await queue.checkStalledJobs();
    return (await queue.getJob(stalled.id))?.status === "succeeded";
  });
  step("destroy");
  await queue.destroy();
});
