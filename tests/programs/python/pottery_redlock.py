"""pottery: Redlock with extension, contention and expiry, NextID, containers, counters, caches.

Packages: pottery
"""

import redis
from pottery import (
    BloomFilter,
    HyperLogLog,
    NextID,
    RedisCounter,
    RedisDeque,
    RedisDict,
    RedisList,
    RedisSet,
    Redlock,
    ReleaseUnlockedLock,
    redis_cache,
    synchronize,
)
from verdict import URL, equal, raises, report, step, until


def program():
    client = redis.Redis.from_url(URL)
    masters = {client}
    step("locks")
    lock = Redlock(key="a", masters=masters, auto_release_time=5)
    other = Redlock(key="a", masters=masters, auto_release_time=5)
    equal(lock.acquire(), True)
    assert lock.locked() > 4
    equal(other.acquire(blocking=False), False)
    lock.extend()
    lock.release()
    equal(client.exists("redlock:a"), 0)
    raises(ReleaseUnlockedLock, other.release)
    with other:
        assert other.locked() > 0
    step("expiry")
    short = Redlock(key="b", masters=masters, auto_release_time=0.3)
    equal(short.acquire(), True)
    equal(Redlock(key="b", masters=masters, auto_release_time=5).acquire(timeout=5), True)
    raises(ReleaseUnlockedLock, short.release)
    step("synchronize")

    @synchronize(key="c", masters=masters, auto_release_time=5, blocking=True, timeout=-1)
    def alone():
        return client.exists("redlock:synchronize:c") or client.keys("*c*")

    assert alone()
    until(lambda: not client.exists("redlock:synchronize:c"))
    step("NextID")
    ids = NextID(key="ids", masters=masters)
    equal([next(ids) for _ in range(3)], [1, 2, 3])
    ids.reset()
    equal(next(ids), 1)
    step("containers")
    equal(RedisDict({"a": 1, "b": [2]}, redis=client, key="dict"), {"a": 1, "b": [2]})
    equal(sorted(RedisSet([1, 2, 2], redis=client, key="set") & {2, 3}), [2])
    items = RedisList([3, 1, 2], redis=client, key="list")
    items.sort()
    items[1] = "x"
    items.extend([4, 5])
    items.remove(3)
    equal(items, [1, "x", 4, 5])
    deque = RedisDeque(range(5), maxlen=3, redis=client, key="deque")
    deque.rotate(1)
    equal(list(deque), [4, 2, 3])
    equal(RedisCounter("abbccc", redis=client, key="counter").most_common(1), [("c", 3)])
    bloom = BloomFilter(["x"], num_elements=100, false_positives=0.001, redis=client, key="bloom")
    equal(("x" in bloom, "y" in bloom), (True, False))
    equal(len(HyperLogLog(range(50), redis=client, key="hyper")), 50)
    step("caches")
    calls = []

    @redis_cache(redis=client, key="cache", timeout=60)
    def double(n):
        calls.append(n)
        return 2 * n

    equal([double(4), double(4), calls], [8, 8, [4]])


if __name__ == "__main__":
    report(program)
