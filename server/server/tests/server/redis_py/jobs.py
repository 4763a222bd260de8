"""Tests the workers of the Python module `punctual.jobs` on a server.

Usage: `jobs.py PORT MODULE`. MODULE is the path of the module's source file. The script loads that
file without its package, because an import of the package needs the compiled extension.
"""

import asyncio
import importlib.util
import os
import signal
import sys
import threading
import time

import redis
import redis.asyncio

PORT, MODULE = int(sys.argv[1]), sys.argv[2]
spec = importlib.util.spec_from_file_location("jobs", MODULE)
jobs = sys.modules["jobs"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(jobs)


def client():
    return redis.Redis(port=PORT, decode_responses=True)


def info(queue):
    reply = client().execute_command("JOB", "INFO", queue)
    return dict(zip(reply[::2], reply[1::2])) if isinstance(reply, list) else reply


def fields(queue, name):
    job = client().execute_command("JOB", "GET", queue, name)
    return dict(zip(job[::2], job[1::2])) if isinstance(job, list) else job


def add_some(queue):
    mails = jobs.Queue(client(), queue)
    assert mails.add("fine", id="a", priority=3) == "a"
    assert mails.add("again", id="a") is None
    assert mails.add("fails", id="b", retry=1, backoff=(0.01, 0.02), jitter=50, priority=2) == "b"
    assert mails.add("later", id="c", delay=0.05, keep=60) == "c"
    # The job runs until the worker has renewed its lease.
    assert mails.add("long", id="d", priority=1, retry=0) == "d"


def renewals(queue):
    """Yield until the end of the lease of the job `d` has changed."""
    first = fields(queue, "d")["at"]
    while fields(queue, "d")["at"] == first:
        yield


def check(queue, seen):
    expected = [("a", 1), ("b", 1), ("b", 2), ("c", 1), ("d", 1)]
    assert sorted(seen) == expected, seen
    counts = info(queue)
    states = [counts[state] for state in ("dead", "done", "ready", "leased")]
    assert states == [1, 1, 0, 0], counts
    assert fields(queue, "b")["error"] == "ValueError: no"


add_some("mails")
seen = []


def handle(job):
    seen.append((job.id, job.attempt))
    if job.id == "b":
        raise ValueError("no")
    if job.id == "d":
        for _ in renewals("mails"):
            time.sleep(0.01)
    if len(seen) == 5:
        # Supervisors send SIGTERM. The worker finishes the running job first.
        os.kill(os.getpid(), signal.SIGTERM)


def work():
    before = signal.getsignal(signal.SIGTERM)
    jobs.Worker(client(), ["urgent", "mails"], handle, lease=3).run()
    assert signal.getsignal(signal.SIGTERM) is before


work()
check("mails", seen)

# A worker with several threads, which the main thread stops.
for n in range(100):
    jobs.Queue(client(), "many").add(str(n))
done, lock = set(), threading.Lock()
worker = jobs.Worker(
    client(),
    ["many"],
    lambda job: (lock.acquire(), done.add(job.payload), lock.release()),
    threads=4,
)
runs = threading.Thread(target=worker.run)
runs.start()
while len(done) < 100:
    time.sleep(0.01)
worker.stop()
runs.join(30)
assert not runs.is_alive()
assert info("many")["leased"] == 0

add_some("amails")
seen = []


async def ahandle(job):
    seen.append((job.id, job.attempt))
    if job.id == "b":
        raise ValueError("no")
    if job.id == "d":
        for _ in renewals("amails"):
            await asyncio.sleep(0.01)


async def main():
    connection = redis.asyncio.Redis(port=PORT, decode_responses=True)
    assert await jobs.Queue(connection, "amails").add("x", id="a") is None
    worker = jobs.AsyncWorker(connection, ["amails"], ahandle, lease=3, tasks=2)
    running = asyncio.ensure_future(worker.run())
    while len(seen) < 5 or info("amails")["leased"]:
        await asyncio.sleep(0.01)
    os.kill(os.getpid(), signal.SIGTERM)
    await asyncio.wait_for(running, 30)
    await connection.aclose()


asyncio.run(main())
check("amails", seen)

# RetryError sets the delay, but a job without retries is dead nevertheless.
jobs.Queue(client(), "waits").add("x", id="w", retry=0)


def wait(job):
    worker.stop()
    raise jobs.RetryError("not yet", delay=60)


worker = jobs.Worker(client(), ["waits"], wait)
worker.run()
assert info("waits")["dead"] == 1


def calls(command):
    return client().info("commandstats")[f"cmdstat_job|{command}"]["calls"]


# One JOB TAKE takes five jobs, which run at the same time.
together, before = threading.Barrier(5), calls("take")
with client().pipeline() as pipe:
    for n in range(5):
        jobs.Queue(pipe, "batch").add(str(n))
    pipe.execute()
worker = jobs.Worker(client(), ["batch"], lambda job: (together.wait(30), worker.stop()), threads=5)
worker.run()
assert calls("take") == before + 1
assert info("batch")["leased"] == 0

# After `grace` seconds, the worker fails the attempt of a running job, and ignores its result.
jobs.Queue(client(), "stuck").add("x", id="s", retry=0)
go_on = threading.Event()
worker = jobs.Worker(client(), ["stuck"], lambda job: (worker.stop(), go_on.wait(30)), grace=0.05)
worker.run()
assert fields("stuck", "s")["error"] == "the worker stopped"
go_on.set()


async def abatch():
    connection = redis.asyncio.Redis(port=PORT, decode_responses=True)
    together, before = asyncio.Event(), calls("take")
    with client().pipeline() as pipe:
        for n in range(5):
            jobs.Queue(pipe, "abatch").add(str(n))
        pipe.execute()
    running = 0

    async def meet(job):
        nonlocal running
        running += 1
        if running == 5:
            together.set()
            worker.stop()
        await together.wait()

    worker = jobs.AsyncWorker(connection, ["abatch"], meet, tasks=5)
    await asyncio.wait_for(worker.run(), 30)
    assert calls("take") == before + 1
    assert info("abatch")["leased"] == 0

    # A worker that is stopped or cancelled fails the attempts of its running jobs.
    for name, cancelled in (("s", False), ("t", True)):
        jobs.Queue(client(), "astuck").add("x", id=name, retry=0)
        began = asyncio.Event()

        async def stuck(job, began=began):
            began.set()
            await asyncio.Event().wait()

        worker = jobs.AsyncWorker(connection, ["astuck"], stuck, grace=0.05)
        task = asyncio.ensure_future(worker.run())
        await began.wait()
        task.cancel() if cancelled else worker.stop()
        done = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(done[0], asyncio.CancelledError) == cancelled
        assert fields("astuck", name)["error"] == "the worker stopped"
    await connection.aclose()


asyncio.run(abatch())

# An error of the server ends the worker.
client().set("text", "x")
try:
    jobs.Worker(client(), ["text"], print, threads=2).run()
except redis.ResponseError as error:
    assert "WRONGTYPE" in str(error), error
else:
    raise AssertionError("a string is no queue")

try:
    jobs.Worker(client(), "waits", wait)
except ValueError:
    pass
else:
    raise AssertionError("a name is no sequence of names")
print("ok")
