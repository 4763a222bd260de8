"""redis-py's cluster mode with asyncio: pipelines, transactions, blocking, a slot that moves, a
primary that is killed.

Packages: redis
"""

import asyncio

import redis
import redis.asyncio
from verdict import HOST, PORT, control, equal, report, step


class Writer:
    """Writes keys to the slot of a tag and to other slots, each until it is acknowledged."""

    def __init__(self, client, tag):
        self.client, self.tag, self.acknowledged, self.stopped = client, tag, [], False
        self.task = asyncio.create_task(self.run())

    async def run(self):
        while not self.stopped:
            number = len(self.acknowledged)
            name = f"{{{self.tag}}}:{number}" if number % 2 else f"{self.tag}:{number}"
            try:
                await self.client.set(name, number)
            except (redis.RedisError, OSError) as error:
                print(f"again: {type(error).__name__}: {error}")
                await asyncio.sleep(0.01)
                continue
            self.acknowledged.append((name, str(number)))

    async def more(self, count):
        goal = len(self.acknowledged) + count
        async with asyncio.timeout(15):
            while len(self.acknowledged) < goal:
                await asyncio.sleep(0.02)

    async def stop(self):
        self.stopped = True
        await self.task
        return self.acknowledged


async def commands(client):
    step("keys of all slots")
    for n in range(0, 300, 20):
        await asyncio.gather(*(client.set(f"key:{m}", m) for m in range(n, n + 20)))
    equal([await client.get(f"key:{n}") for n in range(300)], [str(n) for n in range(300)])
    step("pipelines")
    async with client.pipeline() as pipe:
        for n in range(300):
            pipe.get(f"key:{n}")
        equal(await pipe.execute(), [str(n) for n in range(300)])
    step("one tag")
    await client.mset({"{tag}1": 1, "{tag}2": 2})
    equal(await client.mget("{tag}1", "{tag}2", "{tag}3"), ["1", "2", None])
    async with client.pipeline(transaction=True) as pipe:
        equal(await pipe.incr("{tag}1").incr("{tag}2").execute(), [2, 3])
    step("blocking")
    popped = asyncio.create_task(client.blpop(["{tag}queue"], timeout=10))
    await client.rpush("{tag}queue", "job")
    equal(list(await popped), ["{tag}queue", "job"])


async def connect():
    client = redis.asyncio.RedisCluster(host=HOST, port=PORT, decode_responses=True)
    return await client.initialize()


async def program():
    first = await connect()
    await commands(first)
    await first.aclose()
    step("a slot moves")
    # With several connections to a node, redis-py may send ASKING and the command on different
    # ones. This client has one connection to each node, because its calls are one after the other.
    client = await connect()
    writer = Writer(client, "moved")
    await writer.more(100)
    await asyncio.to_thread(control, "move {moved} redirected")
    await writer.more(100)
    written = await writer.stop()
    await asyncio.to_thread(control, "replicated")
    step("a primary is killed")
    writer = Writer(client, "killed")
    await writer.more(100)
    await asyncio.to_thread(control, "kill {moved}")
    await writer.more(100)
    await writer.stop()
    step("acknowledged writes")
    equal([(name, await client.get(name)) for name, _ in written], written)
    equal(await client.mget("{tag}1", "{tag}2"), ["2", "3"])
    await client.aclose()


if __name__ == "__main__":
    report(program)
