"""redis-py: types, pipelines, transactions, registered scripts, EVAL, EVALSHA, FCALL, locks,
pub/sub, scans, RESP2, RESP3, asyncio.

Packages: redis
"""

import asyncio

import redis
import redis.asyncio
from verdict import URL, equal, raises, report, step, until


def synchronous(protocol):
    client = redis.Redis.from_url(URL, decode_responses=True, protocol=protocol)
    client.flushall()
    step(f"RESP{protocol}: types")
    client.set("s", 1, px=60000)
    equal((client.incrby("s", 4), client.get("s")), (5, "5"))
    client.hset("h", mapping={"a": 1, "b": "two"})
    equal(client.hgetall("h"), {"a": "1", "b": "two"})
    client.zadd("z", {"b": 2, "a": 1})
    equal(
        [tuple(pair) for pair in client.zrange("z", 0, -1, withscores=True)], [("a", 1), ("b", 2)]
    )
    client.sadd("set", "x", "y")
    equal(set(client.smembers("set")), {"x", "y"})
    equal(client.blpop(["none"], timeout=0.1), None)
    step(f"RESP{protocol}: pipelines and transactions")
    equal(client.pipeline().set("m", 1).incr("m").get("m").execute(), [True, 2, "2"])
    with client.pipeline() as pipe:
        pipe.watch("m")
        client.set("m", "changed")
        pipe.multi()
        pipe.set("m", "lost")
        raises(redis.WatchError, pipe.execute)
    step(f"RESP{protocol}: EVAL and EVALSHA")
    equal(
        client.eval("return {KEYS[1], ARGV[1], 3, false, {'x'}}", 1, "k", "v"),
        ["k", "v", 3, None, ["x"]],
    )
    sha = client.script_load("return redis.call('GET', KEYS[1])")
    equal(client.evalsha(sha, 1, "s"), "5")
    equal(client.eval_ro("return redis.call('GET', KEYS[1])", 1, "s"), "5")
    equal(client.script_exists(sha, "0" * 40), [True, False])
    add = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    equal(add(["s"], [10]), 15)
    client.script_flush()
    equal(add(["s"], [10]), 25)
    pipe = client.pipeline()
    add(["s"], [1], client=pipe)
    add(["s"], [1], client=pipe)
    equal(pipe.execute(), [26, 27])
    raises(redis.exceptions.NoScriptError, client.evalsha, "0" * 40, 0)
    said = "return redis.error_reply('MINE said no')"
    equal(str(raises(redis.ResponseError, client.eval, said, 0)), "MINE said no")
    step(f"RESP{protocol}: FCALL")
    put = "function(k, a) return redis.call('SET', k[1], a[1]) end"
    library = f"#!lua name=ours\nredis.register_function('put', {put})"
    equal(client.function_load(library, replace=True), "ours")
    equal((client.fcall("put", 1, "f", "v"), client.get("f")), ("OK", "v"))
    assert "ours" in str(client.function_list())
    client.function_delete("ours")
    step(f"RESP{protocol}: locks")
    with client.lock("lock", timeout=5) as lock:
        equal(client.lock("lock", timeout=5).acquire(blocking=False), False)
        lock.extend(10)
        lock.reacquire()
    equal(client.exists("lock"), 0)
    lost = client.lock("lock", timeout=0.1)
    lost.acquire()
    until(lambda: not client.exists("lock"))
    raises(redis.exceptions.LockNotOwnedError, lost.release)
    step(f"RESP{protocol}: pub/sub")
    pubsub = client.pubsub()
    pubsub.subscribe("news")
    equal(pubsub.get_message(timeout=5)["type"], "subscribe")
    client.publish("news", "hello")
    equal(pubsub.get_message(timeout=5)["data"], "hello")
    step(f"RESP{protocol}: scans")
    client.mset({f"many:{n}": n for n in range(300)})
    equal(len(set(client.scan_iter("many:*"))), 300)


async def asynchronous():
    step("asyncio")
    client = redis.asyncio.Redis.from_url(URL, decode_responses=True)
    await client.set("s", 1)
    equal(sorted(await asyncio.gather(*(client.incr("s") for _ in range(10)))), list(range(2, 12)))
    add = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
    equal(await add(["s"], [9]), 20)
    async with client.pipeline(transaction=True) as pipe:
        equal(await pipe.incr("s").get("s").execute(), [21, "21"])
    async with client.lock("lock", timeout=5):
        equal(await client.lock("lock", timeout=5).acquire(blocking=False), False)
    popped = asyncio.create_task(client.blpop(["queue"], timeout=5))
    await asyncio.sleep(0.05)
    await client.rpush("queue", "job")
    equal(list(await popped), ["queue", "job"])


def program():
    synchronous(2)
    synchronous(3)
    return asynchronous()


if __name__ == "__main__":
    report(program)
