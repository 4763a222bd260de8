"""huey: results, retries, delayed, periodic and prioritised tasks, pipelines, locks, rate limits,
revocation.

Packages: huey[redis]
"""

import time

import redis
from huey import PriorityRedisHuey, RedisHuey
from huey.exceptions import TaskException
from verdict import URL, equal, raises, report, start, step, until

client = redis.Redis.from_url(URL, decode_responses=True)
huey = RedisHuey("huey_tasks", url=URL)
ordered = PriorityRedisHuey("ordered", url=URL)


@huey.task()
def add(x, y):
    return x + y


@huey.task()
def when():
    return time.time()


@huey.task(retries=3, retry_delay=1)
def second_time():
    if client.incr("attempts") < 2:
        raise ValueError("again")
    return "late"


@huey.task()
def broken():
    raise ValueError("broken")


@huey.periodic_task(lambda _: True)
def tick():
    client.incr("ticks")


@huey.task()
@huey.lock_task("alone")
def alone():
    client.incr("alone")
    time.sleep(0.5)
    return "done"


@ordered.task()
def note(word):
    client.rpush("notes", word)


def program():
    # -s is the interval in seconds at which the consumer reads the schedule.
    start("-m huey.bin.huey_consumer huey_tasks.huey -w 2 -s 1 -d 0.05 -m 1")
    step("results")
    equal(add(2, 3).get(blocking=True, timeout=20), 5)
    assert "broken" in str(raises(TaskException, broken().get, blocking=True, timeout=10))
    step("delayed tasks")
    begun = time.time()
    late = when.schedule(delay=1)
    assert late.get(blocking=True, timeout=10) - begun >= 1
    step("retries")
    second = second_time()
    until(lambda: client.get("attempts") == "2")
    equal(second.get(blocking=True, timeout=10), "late")
    step("pipelines")
    piped = huey.enqueue(add.s(1, 2).then(add, 10).then(add, 100))
    equal(piped.get(blocking=True, timeout=10)[-1], 113)
    step("locks")
    both = [alone(), alone()]
    until(lambda: client.get("alone") == "1")
    outcomes = []
    for one in both:
        try:
            outcomes.append(one.get(blocking=True, timeout=10))
        except TaskException as error:
            outcomes.append("locked" if "TaskLocked" in str(error) else str(error))
    equal(sorted(outcomes), ["done", "locked"])
    equal(huey.is_locked("alone"), False)
    step("revocation")
    revoked = when.schedule(delay=1)
    revoked.revoke()
    equal(revoked.is_revoked(), True)
    until(lambda: huey.scheduled_count() == 1)
    until(lambda: huey.scheduled_count() == 0)
    equal(revoked.get(), None)
    step("rate limits")
    with huey.rate_limit("two", limit=1, per=60):
        pass
    try:
        with huey.rate_limit("two", limit=1, per=60, retry=False):
            raise AssertionError("not limited")
    except Exception as error:
        equal(type(error).__name__, "RateLimitExceeded")
    step("priorities")
    for word, priority in (("low", 1), ("high", 9), ("middle", 5)):
        ordered.enqueue(note.s(word, priority=priority))
    equal(ordered.pending_count(), 3)
    start("-m huey.bin.huey_consumer huey_tasks.ordered -w 1")
    until(lambda: client.llen("notes") == 3)
    equal(client.lrange("notes", 0, -1), ["high", "middle", "low"])
    step("periodic tasks")
    until(lambda: client.exists("ticks"))


if __name__ == "__main__":
    # The worker imports this file as `huey_tasks`, so tasks' names must begin with `huey_tasks.`.
    import huey_tasks

    report(huey_tasks.program)
