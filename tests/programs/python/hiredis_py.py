"""hiredis (Python): its parser under redis-py, with large and nested replies, errors, scripts and
pub/sub.

Packages: hiredis redis
"""

import redis
from redis.connection import DefaultParser
from verdict import URL, equal, report, step


def program():
    assert "Hiredis" in DefaultParser.__name__
    for protocol in (2, 3):
        step(f"RESP{protocol}")
        client = redis.Redis.from_url(URL, protocol=protocol)
        client.flushall()
        value = bytes(range(256)) * 5000
        client.set("large", value)
        equal(client.get("large"), value)
        client.rpush("list", *range(10000))
        equal(client.lrange("list", 0, -1), [b"%d" % n for n in range(10000)])
        pipe = client.pipeline(transaction=False).set("s", "x").incr("s").get("none")
        replies = pipe.execute(raise_on_error=False)
        equal((replies[0], type(replies[1]), replies[2]), (True, redis.ResponseError, None))
        nested = client.eval("return {1, {2, {'three', false}}, redis.status_reply('fine')}", 0)
        equal(nested, [1, [2, [b"three", None]], b"fine"])
        pubsub = client.pubsub()
        pubsub.psubscribe("n*")
        equal(pubsub.get_message(timeout=5)["type"], "psubscribe")
        client.publish("news", b"\x00\xff")
        equal(pubsub.get_message(timeout=5)["data"], b"\x00\xff")


if __name__ == "__main__":
    report(program)
