"""redis-py on streams: entries, ranges, trims, groups, acknowledgement, claims, blocked readers,
RESP2, RESP3, asyncio.

Packages: redis
"""

import asyncio
import threading

import redis
import redis.asyncio
from verdict import URL, equal, raises, report, step


def entries(reply):
    """Returns the entries of a reply (in RESP2 a list, in RESP3 a map) with only one stream."""
    ((_, found),) = reply.items() if isinstance(reply, dict) else reply
    return found[0] if isinstance(reply, dict) else found


def synchronous(protocol):
    client = redis.Redis.from_url(URL, decode_responses=True, protocol=protocol)
    client.flushall()
    step(f"RESP{protocol}: entries")
    ids = [client.xadd("s", {"n": n, "text": f"entry {n}"}) for n in range(10)]
    equal(client.xlen("s"), 10)
    equal(client.xrange("s", count=1), [(ids[0], {"n": "0", "text": "entry 0"})])
    equal([id for id, _ in client.xrevrange("s", count=3)], ids[:-4:-1])
    equal(client.xdel("s", ids[3], ids[3]), 1)
    equal(client.xtrim("s", maxlen=8, approximate=False), 1)
    equal(client.xinfo_stream("s")["length"], 8)
    step(f"RESP{protocol}: groups")
    equal(client.xgroup_create("s", "g", id="0"), True)
    error = raises(redis.ResponseError, client.xgroup_create, "s", "g")
    assert str(error).startswith("BUSYGROUP"), error
    first = entries(client.xreadgroup("g", "alice", {"s": ">"}, count=3))
    second = entries(client.xreadgroup("g", "bob", {"s": ">"}))
    equal((len(first), len(second)), (3, 5))
    equal(client.xack("s", "g", first[0][0]), 1)
    equal(client.xpending("s", "g")["pending"], 7)
    waiting = client.xpending_range("s", "g", "-", "+", 10, consumername="alice")
    equal(
        [(one["message_id"], one["times_delivered"]) for one in waiting],
        [(id, 1) for id, _ in first[1:]],
    )
    step(f"RESP{protocol}: claims")
    equal(client.xclaim("s", "g", "carol", 0, [first[1][0]]), [first[1]])
    cursor, claimed, gone = client.xautoclaim("s", "g", "carol", 0, count=100)
    equal((cursor, len(claimed), gone), ("0-0", 7, []))
    equal(client.xack("s", "g", *(id for id, _ in claimed)), 7)
    equal(client.xinfo_groups("s")[0]["lag"], 0)
    equal({one["name"] for one in client.xinfo_consumers("s", "g")}, {"alice", "bob", "carol"})
    step(f"RESP{protocol}: blocked readers")
    threading.Timer(0.2, redis.Redis.from_url(URL).xadd, ("later", {"a": 1})).start()
    equal(entries(client.xread({"later": "$"}, block=10_000))[0][1], {"a": "1"})
    equal(client.xread({"later": "$"}, block=10) or None, None)
    step(f"RESP{protocol}: a transaction")
    added, length = client.pipeline().xadd("s", {"a": 1}).xlen("s").execute()
    equal((added > ids[-1], length), (True, 9))


async def asynchronous():
    step("asyncio: readers of a group")
    client = redis.asyncio.Redis.from_url(URL, decode_responses=True)
    await client.xgroup_create("jobs", "workers", mkstream=True)
    done = []

    async def worker(name):
        while len(done) < 100:
            reply = await client.xreadgroup("workers", name, {"jobs": ">"}, count=3, block=100)
            for id, fields in entries(reply) if reply else []:
                done.append(int(fields["n"]))
                equal(await client.xack("jobs", "workers", id), 1)

    workers = [asyncio.create_task(worker(f"w{n}")) for n in range(4)]
    for n in range(100):
        await client.xadd("jobs", {"n": n}, maxlen=1000)
    await asyncio.wait_for(asyncio.gather(*workers), 20)
    equal(sorted(done), list(range(100)))
    equal((await client.xpending("jobs", "workers"))["pending"], 0)
    await client.aclose()


def program():
    synchronous(2)
    synchronous(3)
    asyncio.run(asynchronous())


report(program)
