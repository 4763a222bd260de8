"""RQ: results, retries, dependencies, scheduled and repeated jobs, callbacks, failures,
cancellation, stopping.

Packages: rq
"""

import time
from datetime import timedelta

import redis
from rq import Callback, Queue, Repeat, Retry
from rq.command import send_stop_job_command
from rq.job import Job
from rq.registry import FailedJobRegistry, FinishedJobRegistry, ScheduledJobRegistry
from verdict import URL, equal, report, start, step, until

client = redis.Redis.from_url(URL)


def add(x, y):
    return x + y


def note(word):
    client.rpush("notes", word)


def third_time():
    if client.incr("attempts") < 3:
        raise ValueError("again")
    return "late"


def broken():
    raise ValueError("broken")


def succeeded(job, connection, result):
    connection.rpush("callbacks", result)


def program():
    queue = Queue(connection=client)
    high = Queue("high", connection=client)
    step("order of queues")
    queue.enqueue(note, "low")
    queue.enqueue(note, "first", at_front=True)
    high.enqueue(note, "high")
    start(f"-m rq.cli worker --url {URL} --with-scheduler high default")
    until(lambda: client.llen("notes") == 3)
    equal(client.lrange("notes", 0, -1), [b"high", b"first", b"low"])
    step("results")
    job = queue.enqueue(add, 2, 3, on_success=Callback(succeeded))
    equal(job.latest_result(timeout=15).return_value, 5)
    equal(Job.fetch(job.id, connection=client).return_value(), 5)
    until(lambda: client.lrange("callbacks", 0, -1) == [b"5"])
    until(lambda: job.id in FinishedJobRegistry(queue=queue))
    step("failures")
    failed = queue.enqueue(broken)
    until(lambda: failed.is_failed)
    assert "ValueError: broken" in failed.latest_result().exc_string
    registry = FailedJobRegistry(queue=queue)
    equal(registry.get_job_ids(), [failed.id])
    registry.requeue(failed)
    until(lambda: len(failed.results()) == 2)
    step("retries")
    again = queue.enqueue(third_time, retry=Retry(max=3))
    until(lambda: again.is_finished)
    equal((client.get("attempts"), again.return_value()), (b"3", "late"))
    step("dependencies")
    one = queue.enqueue(add, 1, 1)
    two = queue.enqueue(note, "dependent", depends_on=one)
    until(lambda: two.is_finished)
    step("scheduled jobs")
    begun = time.time()
    late = queue.enqueue_in(timedelta(seconds=2), add, 4, 4)
    assert late.id in ScheduledJobRegistry(queue=queue)
    until(lambda: late.is_finished)
    # RQ rounds times to whole seconds.
    assert time.time() - begun >= 1, time.time() - begun
    step("cancelled jobs")
    gone = queue.enqueue_in(timedelta(hours=1), note, "gone")
    gone.cancel()
    equal(ScheduledJobRegistry(queue=queue).count, 0)
    step("stopping a job")
    slow = queue.enqueue(time.sleep, 60)
    until(lambda: Job.fetch(slow.id, connection=client).worker_name)
    until(lambda: slow.get_status() == "started")
    send_stop_job_command(client, slow.id)
    until(lambda: slow.is_stopped)
    step("repeated jobs")
    client.delete("notes")
    queue.enqueue(note, "again", repeat=Repeat(times=2, interval=1))
    until(lambda: client.llen("notes") == 3)
    step("many")
    jobs = queue.enqueue_many([Queue.prepare_data(note, ("many",)) for _ in range(10)])
    until(lambda: all(job.is_finished for job in jobs))


if __name__ == "__main__":
    # The worker imports this file as `rq_jobs`, so the functions' names must begin with `rq_jobs.`.
    import rq_jobs

    report(rq_jobs.program)
