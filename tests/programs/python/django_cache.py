"""django-redis: the cache, expiry, atomic counters, locks, patterns, sets, hashes, herds, sessions.

Packages: django-redis
"""

import django
from django.conf import settings
from verdict import URL, equal, raises, report, step, until


def program():
    settings.configure(
        CACHES={
            "default": {
                "BACKEND": "django_redis.cache.RedisCache",
                "LOCATION": f"{URL}/1",
                "OPTIONS": {"CLIENT_CLASS": "django_redis.client.DefaultClient"},
            },
            "herd": {
                "BACKEND": "django_redis.cache.RedisCache",
                "LOCATION": f"{URL}/2",
                "OPTIONS": {"CLIENT_CLASS": "django_redis.client.HerdClient"},
            },
        },
        SESSION_ENGINE="django.contrib.sessions.backends.cache",
    )
    django.setup()
    from django.core.cache import cache, caches
    from django_redis import get_redis_connection

    step("values")
    cache.set("a", {"n": 1}, timeout=60)
    equal(cache.get("a"), {"n": 1})
    equal((cache.add("a", 2), cache.add("b", 2)), (False, True))
    cache.set_many({"c": 3, "d": 4}, timeout=60)
    equal(cache.get_many(["b", "c", "d", "e"]), {"b": 2, "c": 3, "d": 4})
    equal(cache.get_or_set("e", lambda: 5), 5)
    step("counters")
    cache.set("n", 1, timeout=60)
    equal((cache.incr("n", 4), cache.decr("n")), (5, 4))
    raises(ValueError, cache.incr, "none")
    equal(cache.ttl("n") > 50, True)
    cache.incr_version("n")
    equal(cache.get("n", version=2), 4)
    step("expiry")
    cache.set("short", 1, timeout=0.2)
    until(lambda: cache.get("short") is None)
    equal(
        (cache.touch("a", 30), cache.pttl("a") <= 30000, cache.persist("a"), cache.ttl("a")),
        (True, True, True, None),
    )
    step("locks")
    with cache.lock("lock", timeout=5):
        equal(cache.lock("lock", timeout=5, blocking_timeout=0.2).acquire(), False)
    equal(cache.lock("lock", timeout=5).acquire(), True)
    step("patterns")
    cache.set_many({f"many:{n}": n for n in range(100)})
    equal(len(cache.keys("many:*")), 100)
    equal(sum(1 for _ in cache.iter_keys("many:*")), 100)
    equal(cache.delete_pattern("many:*"), 100)
    step("types")
    cache.sadd("set", 1, 2, 3)
    equal(
        (cache.scard("set"), cache.sismember("set", 2), cache.smembers("set")), (3, True, {1, 2, 3})
    )
    cache.hset("hash", "a", 1)
    equal((cache.hlen("hash"), cache.hexists("hash", "a")), (1, True))
    step("herds")
    caches["herd"].set("x", 1, timeout=60)
    equal(caches["herd"].get("x"), 1)
    step("sessions")
    from django.contrib.sessions.backends.cache import SessionStore

    session = SessionStore()
    session["user"] = 7
    session.save()
    equal(SessionStore(session.session_key)["user"], 7)
    session.flush()
    equal(session.exists(session.session_key), False)
    step("the plain client")
    equal(get_redis_connection("default").eval("return redis.call('DBSIZE')", 0) > 0, True)
    cache.clear()
    equal(get_redis_connection("default").dbsize(), 0)


if __name__ == "__main__":
    report(program)
