"""arq: results, deferred jobs, unique jobs, retries, cron, abortion, health.

Packages: arq
"""

import asyncio
import time
from datetime import timedelta

from arq import Retry, Worker, create_pool, cron
from arq.connections import RedisSettings
from arq.jobs import Job, JobStatus
from verdict import HOST, PORT, equal, report, step

SETTINGS = RedisSettings(host=HOST, port=PORT)
ticks = []


async def add(ctx, x, y):
    return x + y


async def when(ctx):
    return time.time()


async def third_time(ctx):
    if ctx["job_try"] < 3:
        raise Retry(defer=0.1)
    return ctx["job_try"]


async def broken(ctx):
    raise ValueError("broken")


async def slow(ctx):
    await asyncio.sleep(60)


async def tick(ctx):
    ticks.append(time.time())


async def program():
    pool = await create_pool(SETTINGS)
    worker = Worker(
        functions=[add, when, third_time, broken, slow],
        cron_jobs=[cron(tick, second=set(range(60)))],
        redis_settings=SETTINGS,
        allow_abort_jobs=True,
        poll_delay=0.05,
        handle_signals=False,
        health_check_interval=1,
    )
    running = asyncio.create_task(worker.async_run())
    step("results")
    job = await pool.enqueue_job("add", 2, 3)
    equal(await job.result(timeout=10), 5)
    equal(await job.status(), JobStatus.complete)
    equal((await job.info()).args, (2, 3))
    try:
        raise AssertionError(await (await pool.enqueue_job("broken")).result(timeout=10))
    except ValueError as error:
        equal(str(error), "broken")
    step("unique jobs")
    first = await pool.enqueue_job("add", 1, 1, _job_id="one", _defer_by=60)
    equal(first.job_id, "one")
    equal(await pool.enqueue_job("add", 1, 1, _job_id="one"), None)
    equal(await first.status(), JobStatus.deferred)
    step("deferred jobs")
    begun = time.time()
    late = await pool.enqueue_job("when", _defer_by=timedelta(seconds=0.7))
    assert await late.result(timeout=10) - begun >= 0.7
    step("retries")
    equal(await (await pool.enqueue_job("third_time")).result(timeout=10), 3)
    step("abortion")
    long = await pool.enqueue_job("slow")
    while await long.status() != JobStatus.in_progress:
        await asyncio.sleep(0.02)
    equal(await long.abort(timeout=10), True)
    step("cron")
    while len(ticks) < 2:
        await asyncio.sleep(0.02)
    step("queued jobs and results")
    equal(
        [queued.job_id for queued in await pool.queued_jobs() if queued.function == "add"], ["one"]
    )
    assert {"add", "when", "third_time"} <= {
        result.function for result in await pool.all_job_results()
    }
    equal(await Job("one", pool).abort(timeout=5), True)
    step("health")
    while not await pool.get("arq:queue:health-check"):
        await asyncio.sleep(0.02)
    running.cancel()


if __name__ == "__main__":
    report(program)
