// BullMQ in `punctual-bench jobs`.
//
// `work PORT OUT` runs jobs, and appends the lateness of each job in microseconds to the file OUT.
// `produce PORT COUNT FIRST SPREAD` adds COUNT jobs. Their due times begin at FIRST (Unix time in
// milliseconds) and are spread over SPREAD milliseconds. With FIRST 0, the jobs are due at once.
const fs = require("node:fs");
const { Queue, Worker } = require("bullmq");

const CONCURRENCY = 10;
const BULK = 500;

const now = () => performance.timeOrigin + performance.now();

async function work(connection, out) {
  const file = fs.openSync(out, "a");
  const run = async (job) => void fs.writeSync(file, `${Math.max(0, Math.round((now() - job.data.due) * 1000))}\n`);
  const worker = new Worker("bench", run, { connection, concurrency: CONCURRENCY });
  process.once("SIGTERM", () => worker.close());
}

async function produce(connection, count, first, spread) {
  const queue = new Queue("bench", { connection });
  for (let begin = 0; begin < count; begin += BULK) {
    const jobs = [];
    for (let index = begin; index < Math.min(count, begin + BULK); index++) {
      // The order of the due times differs from the order in which the jobs are added; 7,919 is a prime.
      const due = first ? first + Math.floor((((index * 7919) % count) * spread) / count) : Math.round(now());
      const delay = first ? { delay: due - Date.now() } : {};
      // The other peers keep no data of a completed job.
      jobs.push({ name: "job", data: { due, text: " ".repeat(70) }, opts: { ...delay, removeOnComplete: true } });
    }
    await queue.addBulk(jobs);
  }
  await queue.close();
}

const [mode, port, ...rest] = process.argv.slice(2);
const connection = { host: "127.0.0.1", port: Number(port), maxRetriesPerRequest: null };
if (mode === "work") work(connection, rest[0]);
else produce(connection, ...rest.map(Number));
