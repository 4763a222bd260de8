"""dramatiq: actors, results, retries, delays, dead letters, pipelines, groups with callbacks, rate
limits, barriers, flush.

Packages: dramatiq[redis]
"""

import time

import dramatiq
import redis
from dramatiq import group, pipeline
from dramatiq.brokers.redis import RedisBroker
from dramatiq.middleware import GroupCallbacks
from dramatiq.rate_limits import (
    Barrier,
    BucketRateLimiter,
    ConcurrentRateLimiter,
    WindowRateLimiter,
)
from dramatiq.rate_limits.backends import RedisBackend as LimitsBackend
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend
from verdict import URL, equal, raises, report, start, step, until

client = redis.Redis.from_url(URL, decode_responses=True)
limits = LimitsBackend(url=URL)
broker = RedisBroker(url=URL, maintenance_chance=1_000_000, heartbeat_timeout=2000)
broker.add_middleware(Results(backend=RedisBackend(url=URL)))
broker.add_middleware(GroupCallbacks(limits))
dramatiq.set_broker(broker)


@dramatiq.actor(store_results=True)
def add(x, y):
    return x + y


@dramatiq.actor(store_results=True)
def when():
    return time.time()


@dramatiq.actor(max_retries=5, min_backoff=100, max_backoff=200)
def third_time():
    if client.incr("attempts") < 3:
        raise ValueError("again")


@dramatiq.actor
def note(word):
    client.rpush("notes", word)


@dramatiq.actor(max_retries=0)
def broken():
    raise ValueError("broken")


def program():
    start("-m dramatiq dramatiq_actors -p 1 -t 4")
    step("results")
    equal(add.send(2, 3).get_result(block=True, timeout=20000), 5)
    step("retries")
    third_time.send()
    until(lambda: client.get("attempts") == "3")
    step("delays")
    begun = time.time()
    late = when.send_with_options(delay=700)
    assert late.get_result(block=True, timeout=10000) - begun >= 0.7
    step("dead letters")
    broken.send()
    until(lambda: client.zcard("dramatiq:default.XQ") == 1)
    step("pipelines")
    piped = pipeline([add.message(1, 2), add.message(10), add.message(100)]).run()
    equal(piped.get_result(block=True, timeout=10000), 113)
    step("groups")
    many = group([add.message(n, n) for n in range(8)])
    many.add_completion_callback(note.message("group"))
    equal(list(many.run().get_results(block=True, timeout=10000)), [2 * n for n in range(8)])
    until(lambda: client.lrange("notes", 0, -1) == ["group"])
    step("concurrent rate limits")
    mutex = ConcurrentRateLimiter(limits, "mutex", limit=1)
    with mutex.acquire():
        raises(dramatiq.RateLimitExceeded, mutex.acquire().__enter__)
    with mutex.acquire(raise_on_failure=False) as acquired:
        equal(acquired, True)
    step("bucket and window rate limits")
    bucket = BucketRateLimiter(limits, "bucket", limit=2, bucket=60000)
    for limiter in (bucket, WindowRateLimiter(limits, "window", limit=2, window=60)):
        taken = []
        for _ in range(3):
            with limiter.acquire(raise_on_failure=False) as acquired:
                taken.append(acquired)
        equal(taken, [True, True, False])
    step("barriers")
    barrier = Barrier(limits, "barrier", ttl=60000)
    equal(barrier.create(parties=2), True)
    equal([barrier.wait(block=False), barrier.wait(block=False)], [False, True])
    step("flush")
    note.send_with_options(args=("never",), delay=60000)
    broker.flush_all()


if __name__ == "__main__":
    report(program)
