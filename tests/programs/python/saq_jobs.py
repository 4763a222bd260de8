"""saq: results, retries, scheduled, unique and cron jobs, batches, abortion, statistics.

Packages: saq[redis]
"""

import asyncio
import time

from saq import CronJob, Job, Queue, Status, Worker
from verdict import URL, equal, report, step

ticks = []


async def add(ctx, *, x, y):
    return x + y


async def when(ctx):
    return time.time()


async def third_time(ctx):
    if ctx["job"].attempts < 3:
        raise ValueError("again")
    return ctx["job"].attempts


async def slow(ctx):
    await asyncio.sleep(60)


async def tick(ctx):
    ticks.append(time.time())


async def program():
    queue = Queue.from_url(URL)
    await queue.connect()
    worker = Worker(
        queue,
        [add, when, third_time, slow],
        concurrency=4,
        cron_jobs=[CronJob(tick, cron="* * * * * */1")],
        timers={"schedule": 1, "worker_info": 1, "sweep": 60, "abort": 1},
        dequeue_timeout=1,
    )
    running = asyncio.create_task(worker.start())
    # Jobs are added after the worker's first sweep, because a sweep aborts jobs that a worker has
    # taken but not yet marked as active.
    while not (await queue.info())["workers"]:
        await asyncio.sleep(0.05)
    step("results")
    equal(await queue.apply("add", x=2, y=3, timeout=10), 5)
    equal(
        await queue.map("add", [{"x": n, "y": n} for n in range(10)], timeout=10),
        [2 * n for n in range(10)],
    )
    step("retries")
    equal(await queue.apply("third_time", retries=3, timeout=10), 3)
    step("scheduled jobs")
    due = time.time() + 1
    late = await queue.enqueue("when", scheduled=due)
    equal(late.status, Status.QUEUED)
    await late.refresh(until_complete=10)
    assert late.result >= int(due), late.result - due
    step("unique jobs")
    one = await queue.enqueue("add", x=1, y=1, key="one", scheduled=time.time() + 60)
    equal(one.key, "one")
    equal(await queue.enqueue("add", x=1, y=1, key="one"), None)
    step("batches")
    async with queue.batch():
        batch = [await queue.enqueue("add", x=n, y=1) for n in range(3)]
        # The test polls, because `refresh(until_complete=...)` may miss the end of a short job.
        keys = [job.key for job in batch]
        while {job.status for job in batch} != {Status.COMPLETE}:
            await asyncio.sleep(0.02)
            batch = await queue.jobs(keys)
    equal([job.result for job in batch], [1, 2, 3])
    step("abortion")
    long = await queue.enqueue(Job("slow", timeout=100))
    while (await queue.job(long.key)).status != Status.ACTIVE:
        await asyncio.sleep(0.02)
    await long.abort("enough")
    while (await queue.job(long.key)).status != Status.ABORTED:
        await asyncio.sleep(0.02)
    step("cron")
    while len(ticks) < 2:
        await asyncio.sleep(0.02)
    step("statistics")
    # The cron job may be running.
    while (info := await queue.info(jobs=True))["active"]:
        await asyncio.sleep(0.02)
    assert info["scheduled"] >= 1, info
    running.cancel()


if __name__ == "__main__":
    report(program)
