"""redlock-py: locks, contention, retries, expiry.

Packages: redlock-py
"""

import time

import redis
from redlock import Redlock
from verdict import HOST, PORT, URL, equal, report, step


def program():
    client = redis.Redis.from_url(URL)
    manager = Redlock([{"host": HOST, "port": PORT, "db": 0}], retry_count=1)
    step("lock and unlock")
    lock = manager.lock("a", 5000)
    equal(client.get("a"), lock.key)
    equal(manager.lock("a", 5000), False)
    manager.unlock(lock)
    equal(client.exists("a"), 0)
    step("expiry and retries")
    short = manager.lock("b", 300)
    begun = time.time()
    patient = Redlock([URL], retry_count=30, retry_delay=0.05)
    lock = patient.lock("b", 5000)
    assert lock and time.time() - begun >= 0.2
    # The first lock has expired, so `unlock` must not release the second one.
    manager.unlock(short)
    equal(client.get("b"), lock.key)
    patient.unlock(lock)
    equal(client.exists("b"), 0)


if __name__ == "__main__":
    report(program)
