"""redis-py's client-side cache: hits, writes of other clients, own writes, expired keys, flushes,
several keys.

Packages: redis
"""

import redis
from redis.cache import CacheConfig
from redis.connection import CacheProxyConnection
from verdict import URL, equal, report, step, until

# The library refuses servers whose INFO names a version before 7.4, but it needs only commands
# of 6.0.
CacheProxyConnection.MIN_ALLOWED_VERSION = "6.0.0"


def main():
    other = redis.Redis.from_url(URL, decode_responses=True)
    other.flushall()
    other.config_resetstat()
    cached = redis.Redis.from_url(
        URL, decode_responses=True, protocol=3, cache_config=CacheConfig(max_size=1000)
    )
    cache = cached.get_cache()

    def calls(command):
        return other.info("commandstats").get(f"cmdstat_{command}", {}).get("calls", 0)

    step("hits")
    other.set("k", "1")
    equal([cached.get("k") for _ in range(100)], ["1"] * 100)
    equal((calls("get"), cache.size), (1, 1))
    step("another client's write")
    other.set("k", "2")
    until(lambda: cached.get("k") == "2")
    equal([cached.get("k") for _ in range(100)], ["2"] * 100)
    assert calls("get") == 2, calls("get")
    step("own writes")
    cached.set("k", "3")
    equal(cached.get("k"), "3")
    cached.incr("k")
    equal(cached.get("k"), "4")
    step("types and several keys")
    other.hset("h", mapping={"a": 1, "b": 2})
    other.rpush("l", "x", "y")
    for _ in range(3):
        equal(cached.hgetall("h"), {"a": "1", "b": "2"})
        equal(cached.lrange("l", 0, -1), ["x", "y"])
        equal(cached.mget("k", "n"), ["4", None])
    equal((calls("hgetall"), calls("lrange"), calls("mget")), (1, 1, 1))
    other.set("n", "now")
    until(lambda: cached.mget("k", "n") == ["4", "now"])
    other.hincrby("h", "a", 1)
    until(lambda: cached.hget("h", "a") == "2" and cached.hgetall("h")["a"] == "2")
    step("an expired key")
    other.set("e", "v", px=300)
    equal(cached.get("e"), "v")
    until(lambda: cached.get("e") is None)
    step("a flush")
    equal(cached.get("k"), "4")
    other.flushdb()
    until(lambda: cached.get("k") is None)


report(main)
