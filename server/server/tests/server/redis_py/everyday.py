"""Tests everyday use of redis-py: everyday.py PORT PROTOCOL [CA CERTIFICATE KEY].

With CA, CERTIFICATE and KEY, connections use TLS: the clients verify the server and send their own
certificate.
"""

import sys
import threading
import time

import redis

port, protocol = int(sys.argv[1]), int(sys.argv[2])
options = {"port": port, "protocol": protocol, "decode_responses": True, "socket_timeout": 20}
if len(sys.argv) > 3:
    ca, certificate, key = sys.argv[3:]
    options |= {"ssl": True, "ssl_ca_certs": ca, "ssl_check_hostname": True}
    options |= {"ssl_certfile": certificate, "ssl_keyfile": key}
r = redis.Redis(**options)


def strings():
    assert r.set("name", "Ada") is True
    assert r.set("name", "Grace", nx=True) is None
    assert r.get("name") == "Ada"
    assert r.mset({"a": 1, "b": 2}) is True
    assert r.mget("a", "none", "b") == ["1", None, "2"]
    assert r.incrbyfloat("f", 0.1) == 0.1
    assert r.set("t", "x", ex=100) and 50 <= r.ttl("t") <= 100
    assert r.getex("t", persist=True) == "x" and r.ttl("t") == -1


def lists():
    assert r.rpush("l", *range(5)) == 5
    assert r.lrange("l", 0, -1) == list("01234")
    assert r.lmove("l", "m", "LEFT", "RIGHT") == "0"
    assert r.lmpop(2, "none", "l", direction="LEFT", count=2) == ["l", ["1", "2"]]
    assert r.lpos("l", "4") == 1
    assert r.blpop(["none", "l"], timeout=1) in (("l", "3"), ["l", "3"])


def hashes():
    assert r.hset("h", mapping={"x": 1, "y": 2}) == 2
    assert r.hgetall("h") == {"x": "1", "y": "2"}
    assert r.hmget("h", "x", "none") == ["1", None]
    r.hset("many", mapping={f"f{n}": n for n in range(1000)})
    assert len(dict(r.hscan_iter("many"))) == 1000
    assert r.hexpire("h", 100, "x", "none") == [1, -2]
    assert r.httl("h", "y") == [-1]
    assert r.hpersist("h", "x") == [1]


def sets():
    r.sadd("s", 1, 2, 3)
    r.sadd("t", 2, 3, 4)
    assert r.sinter("s", "t") == {"2", "3"}
    assert r.smembers("s") == {"1", "2", "3"}
    assert r.smismember("s", ["1", "9"]) == [1, 0]
    assert r.sintercard(2, ["s", "t"], limit=1) == 1
    r.sadd("big", *(f"m{n}" for n in range(1000)))
    assert len(set(r.sscan_iter("big", count=50))) == 1000


def sorted_sets():
    assert r.zadd("z", {"a": 1, "b": 2.5, "c": float("inf")}) == 3
    shown = [tuple(pair) for pair in r.zrange("z", 0, -1, withscores=True)]
    assert shown == [("a", 1.0), ("b", 2.5), ("c", float("inf"))], shown
    assert r.zadd("z", {"a": 0.5}, gt=True, ch=True) == 0
    assert r.zincrby("z", 0.1, "a") == 1.1
    assert r.zrank("z", "b") == 1
    assert r.zrangebyscore("z", "(1.1", "+inf", start=0, num=1) == ["b"]
    assert r.zrange("z", "+inf", "-inf", byscore=True, desc=True, offset=1, num=5) == ["b", "a"]
    assert r.zunionstore("u", {"z": 2, "none": 1}) == 3
    assert r.zscore("u", "b") == 5.0
    assert len(r.zpopmin("z", 2)) == 2
    assert dict(r.zscan_iter("u"))["a"] == 2.2


def rest_of_the_types():
    assert r.setbit("bits", 7, 1) == 0 and r.bitcount("bits") == 1
    assert r.bitfield("bf").incrby("u8", 0, 200).incrby("u8", 0, 100).execute() == [200, 44]
    r.pfadd("hll", *range(1000))
    assert 950 <= r.pfcount("hll") <= 1050
    r.geoadd("g", (13.361389, 38.115556, "Palermo", 15.087269, 37.502669, "Catania"))
    assert abs(r.geodist("g", "Palermo", "Catania", "km") - 166.2742) < 1e-6
    found = r.geosearch("g", longitude=15, latitude=37, radius=200, unit="km", sort="ASC")
    assert found == ["Catania", "Palermo"]
    r.rpush("ids", 3, 1, 2)
    assert r.sort("ids", desc=True) == ["3", "2", "1"]
    assert r.object("encoding", "ids") == "listpack"


def transactions():
    with r.pipeline(transaction=True) as pipe:
        results = pipe.set("p", 1).incr("p").lpush("p", "x").get("p").execute(raise_on_error=False)
        assert results[:2] == [True, 2] and results[3] == "2"
        assert isinstance(results[2], redis.ResponseError)

    def take_two(pipe):
        left = int(pipe.get("p"))
        pipe.multi()
        pipe.set("p", left - 2)

    assert r.transaction(take_two, "p") == [True] and r.get("p") == "0"
    with r.pipeline() as pipe:
        pipe.watch("p")
        r.set("p", "changed by another")
        pipe.multi()
        pipe.set("p", "lost")
        try:
            pipe.execute()
            raise AssertionError("EXEC succeeded although a watched key was changed")
        except redis.WatchError:
            pass


def queues():
    got = []
    worker = threading.Thread(target=lambda: got.append(r.brpop("jobs", timeout=15)))
    worker.start()
    while r.info("clients")["blocked_clients"] == 0:
        time.sleep(0.001)
    r.lpush("jobs", "one")
    worker.join()
    assert [tuple(pair) for pair in got] == [("jobs", "one")], got
    assert r.bzpopmin("none", timeout=0.01) is None


def messages():
    subscriber = r.pubsub(ignore_subscribe_messages=False)
    subscriber.subscribe("news")
    assert subscriber.get_message(timeout=5)["type"] == "subscribe"
    assert r.publish("news", "hello") == 1
    assert subscriber.get_message(timeout=5)["data"] == "hello"
    subscriber.close()


def keys():
    names = {f"key:{n}" for n in range(500)}
    r.mset(dict.fromkeys(names, 1))
    assert set(r.scan_iter("key:*", count=20)) == names
    assert r.copy("key:1", "copy") and r.rename("copy", "moved") and r.type("moved") == "string"
    assert r.delete(*names) == 500
    r.set("name", "Ada")
    try:
        r.lpush("name", "x")
        raise AssertionError("LPUSH succeeded on a string")
    except redis.ResponseError as error:
        assert str(error).startswith("WRONGTYPE"), error


def users():
    r.acl_setuser(
        "ann",
        enabled=True,
        passwords=["+secret"],
        commands=["+get", "+set", "+multi", "+exec", "+client", "+hello"],
        keys=["cache:*"],
    )
    assert r.acl_getuser("ann")["enabled"] and "ann" in r.acl_users()
    ann = redis.Redis(**options, username="ann", password="secret")
    assert ann.set("cache:1", "x") and ann.get("cache:1") == "x"
    for denied in (lambda: ann.get("name"), lambda: ann.delete("cache:1")):
        try:
            denied()
            raise AssertionError("a denied command succeeded")
        except redis.exceptions.NoPermissionError:
            pass
    assert [entry["object"] for entry in r.acl_log()][:2] == ["del", "name"], r.acl_log()
    assert r.acl_dryrun("ann", "get", "cache:1") == "OK" and len(r.acl_genpass()) == 64
    assert r.acl_deluser("ann") == 1 and r.acl_whoami() == "default"


for part in (
    strings,
    lists,
    hashes,
    sets,
    sorted_sets,
    rest_of_the_types,
    transactions,
    queues,
    messages,
    keys,
    users,
):
    r.flushall()
    part()
