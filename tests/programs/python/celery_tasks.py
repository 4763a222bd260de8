"""Celery with Redis as broker and result backend: results, retries, countdown, eta, expiry,
priorities, groups, chains, chords, revocation, rate limits, beat, inspection.

Packages: celery[redis]
"""

import time
from datetime import datetime, timedelta, timezone

import redis
from celery import Celery, chain, chord, group
from celery.exceptions import TaskRevokedError
from verdict import URL, equal, raises, report, start, step, until

app = Celery("celery_tasks", broker=URL, backend=URL)
app.conf.update(
    broker_transport_options={"priority_steps": list(range(10)), "visibility_timeout": 3600},
    result_extended=True,
    result_expires=600,
    task_track_started=True,
    worker_prefetch_multiplier=1,
    beat_schedule={"tick": {"task": "celery_tasks.tick", "schedule": 0.3}},
)
client = redis.Redis.from_url(URL, decode_responses=True)


@app.task
def add(x, y):
    return x + y


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def note(word):
    client.rpush("notes", word)
    return time.time()


@app.task
def tick():
    client.incr("ticks")


@app.task(bind=True, max_retries=3)
def third_time(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0.2)
    return self.request.retries


@app.task
def broken():
    raise ValueError("broken")


@app.task(rate_limit="2/s")
def limited():
    return time.time()


def program():
    worker = start("-m celery -A celery_tasks worker -c 2 -l info -s schedule -B")
    step("results")
    equal(add.delay(2, 3).get(timeout=25), 5)
    error = raises(ValueError, broken.delay().get, timeout=10)
    equal(str(error), "broken")
    step("retries")
    equal(third_time.delay().get(timeout=10), 2)
    step("countdown and eta")
    begun = time.time()
    late = note.apply_async(("countdown",), countdown=0.5)
    later = note.apply_async(("eta",), eta=datetime.now(timezone.utc) + timedelta(seconds=1))
    assert late.get(timeout=10) - begun >= 0.5
    assert later.get(timeout=10) - begun >= 0.95
    step("expiry and revocation")
    expired = note.apply_async(("expired",), countdown=0.3, expires=0.1)
    revoked = note.apply_async(("revoked",), countdown=1)
    time.sleep(0.2)
    revoked.revoke()
    raises(TaskRevokedError, expired.get, timeout=10)
    raises(TaskRevokedError, revoked.get, timeout=10)
    step("groups, chains and chords")
    equal(group(add.s(n, n) for n in range(8))().get(timeout=10), [2 * n for n in range(8)])
    equal(chain(add.s(1, 2), add.s(10), add.s(100))().get(timeout=10), 113)
    equal(chord([add.s(n, 1) for n in range(8)])(total.s()).get(timeout=10), 36)
    step("rate limits")
    times = sorted(group(limited.s() for _ in range(4))().get(timeout=10))
    assert times[-1] - times[0] >= 1
    step("beat")
    until(lambda: int(client.get("ticks") or 0) >= 3)
    step("inspection")
    [(_, registered)] = app.control.inspect(timeout=2).registered().items()
    assert any(name.startswith("celery_tasks.add") for name in registered)
    step("results in the backend")
    [*keys] = client.scan_iter("celery-task-meta-*")
    assert len(keys) > 20 and 0 < client.ttl(keys[0]) <= 600
    late.forget()
    equal(client.exists(f"celery-task-meta-{late.id}"), 0)
    step("priorities, after a warm shutdown")
    worker.terminate()
    worker.wait(20)
    client.delete("notes")
    for word, priority in (("low", 9), ("high", 0), ("middle", 5)):
        note.apply_async((word,), priority=priority)
    start("-m celery -A celery_tasks worker -c 1 -P solo -l info")
    until(lambda: client.llen("notes") == 3)
    equal(client.lrange("notes", 0, -1), ["high", "middle", "low"])


if __name__ == "__main__":
    report(program)
