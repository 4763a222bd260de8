"""taskiq with its broker on Redis streams: tasks, results, failures, and a task that a killed
worker has left.

Packages: taskiq-redis
"""

import asyncio
import sys

from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker
from verdict import URL, equal, report, start, step

broker = RedisStreamBroker(URL, idle_timeout=500, unacknowledged_lock_timeout=5)
broker = broker.with_result_backend(RedisAsyncResultBackend(URL))


@broker.task(task_name="add")
async def add(x, y):
    return x + y


@broker.task(task_name="broken")
async def broken():
    raise ValueError("broken")


@broker.task(task_name="slow")
async def slow(seconds):
    await asyncio.sleep(seconds)
    return "late"


async def program():
    await broker.startup()
    command = ("-m taskiq worker --workers 1 --app-dir", sys.path[0], "taskiq_streams:broker")
    worker = start(*command)
    step("results")
    tasks = [await add.kiq(n, 1) for n in range(20)]
    equal([(await task.wait_result(timeout=20)).return_value for task in tasks], list(range(1, 21)))
    step("failures")
    failed = await (await broken.kiq()).wait_result(timeout=20)
    equal((failed.is_err, str(failed.error)), (True, "broken"))
    step("a killed worker")
    task = await slow.kiq(1)
    await asyncio.sleep(0.3)
    worker.kill()
    worker = start(*command)
    equal((await task.wait_result(timeout=30)).return_value, "late")
    worker.terminate()
    await broker.shutdown()


if __name__ == "__main__":
    report(program)
