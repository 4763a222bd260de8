"""channels_redis: channels, groups, capacity, expiry, process-local channels, with lists and with
pub/sub.

Packages: channels_redis
"""

import asyncio

from channels.exceptions import ChannelFull
from channels_redis.core import RedisChannelLayer
from channels_redis.pubsub import RedisPubSubChannelLayer
from verdict import URL, equal, report, step


async def next_of(layer, channel):
    return (await asyncio.wait_for(layer.receive(channel), 10))["text"]


async def program():
    layer = RedisChannelLayer(hosts=[URL], capacity=3, expiry=1)
    step("channels")
    await layer.send("a", {"type": "x", "text": "one"})
    await layer.send("a", {"type": "x", "text": "two"})
    equal([await next_of(layer, "a"), await next_of(layer, "a")], ["one", "two"])
    waiting = asyncio.create_task(next_of(layer, "later"))
    await asyncio.sleep(0.1)
    await layer.send("later", {"type": "x", "text": "woken"})
    equal(await waiting, "woken")
    step("process-local channels")
    mine = [await layer.new_channel(), await layer.new_channel()]
    for channel in mine:
        await layer.send(channel, {"type": "x", "text": channel})
    equal([await next_of(layer, channel) for channel in reversed(mine)], mine[::-1])
    step("capacity")
    for _ in range(3):
        await layer.send("full", {"type": "x", "text": "full"})
    try:
        await layer.send("full", {"type": "x", "text": "full"})
        raise AssertionError("not full")
    except ChannelFull:
        pass
    step("expiry")
    await asyncio.sleep(1.2)
    await layer.send("full", {"type": "x", "text": "fresh"})
    equal(await next_of(layer, "full"), "fresh")
    step("groups")
    for channel in ("g1", "g2", "g3"):
        await layer.group_add("group", channel)
    await layer.group_discard("group", "g3")
    await layer.group_send("group", {"type": "x", "text": "all"})
    equal([await next_of(layer, "g1"), await next_of(layer, "g2")], ["all", "all"])
    await layer.flush()
    for kind, options in (("pub/sub", {}), ("pub/sub with a prefix", {"prefix": "other"})):
        step(kind)
        one, two = (RedisPubSubChannelLayer(hosts=[URL], **options) for _ in range(2))
        channel = await one.new_channel()
        await one.group_add("group", channel)
        await two.send(channel, {"type": "x", "text": "direct"})
        equal(await next_of(one, channel), "direct")
        await two.group_send("group", {"type": "x", "text": "all"})
        equal(await next_of(one, channel), "all")
        await one.group_discard("group", channel)


if __name__ == "__main__":
    report(program)
