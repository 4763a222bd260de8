"""redis-py's cluster mode: pipelines, transactions, blocking, sharded pub/sub, a slot that moves, a
primary that is killed.

Packages: redis
"""

import threading
import time

import redis
from verdict import HOST, PORT, control, equal, raises, report, step, until


class Writer(threading.Thread):
    """Writes keys to the slot of a tag and to other slots, each until it is acknowledged."""

    def __init__(self, client, tag):
        super().__init__(daemon=True)
        self.client, self.tag, self.acknowledged, self.stopped = client, tag, [], False
        self.start()

    def run(self):
        while not self.stopped:
            number = len(self.acknowledged)
            name = f"{{{self.tag}}}:{number}" if number % 2 else f"{self.tag}:{number}"
            try:
                self.client.set(name, number)
            except (redis.RedisError, OSError) as error:
                print(f"again: {type(error).__name__}: {error}")
                time.sleep(0.01)
                continue
            self.acknowledged.append((name, str(number)))

    def more(self, count):
        goal = len(self.acknowledged) + count
        until(lambda: len(self.acknowledged) >= goal)

    def stop(self):
        self.stopped = True
        self.join()
        return self.acknowledged


def commands(client):
    step("keys of all slots")
    for n in range(300):
        client.set(f"key:{n}", n)
    equal([client.get(f"key:{n}") for n in range(300)], [str(n) for n in range(300)])
    equal(len(list(client.scan_iter("key:*", target_nodes=client.PRIMARIES))), 300)
    step("pipelines")
    pipe = client.pipeline()
    for n in range(300):
        pipe.get(f"key:{n}")
    equal(pipe.execute(), [str(n) for n in range(300)])
    step("one tag")
    client.mset({"{tag}1": 1, "{tag}2": 2})
    equal(client.mget("{tag}1", "{tag}2", "{tag}3"), ["1", "2", None])
    raises(redis.RedisClusterException, client.mget, "a", "b")
    pipe = client.pipeline(transaction=True)
    equal(pipe.incr("{tag}1").incr("{tag}2").execute(), [2, 3])
    step("blocking")
    threading.Timer(0.1, client.rpush, ("{tag}queue", "job")).start()
    equal(list(client.blpop(["{tag}queue"], timeout=10)), ["{tag}queue", "job"])
    step("sharded pub/sub")
    pubsub = client.pubsub()
    pubsub.ssubscribe("{tag}news")
    equal(until(lambda: pubsub.get_sharded_message(timeout=1))["type"], "ssubscribe")
    client.spublish("{tag}news", "hello")
    equal(until(lambda: pubsub.get_sharded_message(timeout=1))["data"], "hello")
    pubsub.close()


def program():
    client = redis.RedisCluster(host=HOST, port=PORT, decode_responses=True)
    commands(client)
    step("a slot moves")
    writer = Writer(client, "moved")
    writer.more(100)
    control("move {moved} redirected")
    writer.more(100)
    written = writer.stop()
    control("replicated")
    step("a primary is killed")
    writer = Writer(client, "killed")
    writer.more(100)
    control("kill {moved}")
    writer.more(100)
    writer.stop()
    step("acknowledged writes")
    equal([(name, client.get(name)) for name, _ in written], written)
    equal(client.mget("{tag}1", "{tag}2"), ["2", "3"])


if __name__ == "__main__":
    report(program)
