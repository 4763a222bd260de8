"""A server on a virtual clock: when `advance` returns, all its effects have happened."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from typing import Any

import pytest
import redis
import redis.asyncio
from punctual_server import BaseServer
from tested import Server


def connect(server: BaseServer) -> redis.Redis:
    return redis.Redis.from_url(server.url, decode_responses=True)


def messages(listener: Any) -> list[tuple[str, str]]:
    """Returns the messages that have arrived, without waiting."""
    found = []
    while (message := listener.get_message()) is not None:
        if message["type"] in {"message", "pmessage"}:
            found.append((message["channel"], message["data"]))
    return found


def test_time_stands_still_until_advanced() -> None:
    with Server(clock="virtual") as server, connect(server) as client:
        began = server.now()
        assert abs(began - time.time()) < 60
        client.set("key", "value", px=1)
        time.sleep(0.01)
        assert client.get("key") == "value"
        assert server.now() == began
        assert server.advance(0.001) == server.now()
        assert server.now() == pytest.approx(began + 0.001, abs=1e-6)
        assert client.get("key") is None


def test_a_month_passes_at_once() -> None:
    with Server(clock="virtual") as server, connect(server) as client:
        client.set("token", "secret", ex=30 * 86_400)
        server.advance(30 * 86_400 - 1)
        assert client.ttl("token") == 1
        server.advance(1)
        assert client.exists("token") == 0
        assert client.info("stats")["expired_keys"] == 1


def test_advances_by_tenths_add_up() -> None:
    with Server(clock="virtual") as server, connect(server) as client:
        client.set("key", "value", px=300)
        server.advance(0.1)
        server.advance(0.1)
        assert client.pttl("key") == 100
        server.advance(0.1)
        assert client.exists("key") == 0
        client.set("key", "value", px=300)
        server.advance(0.3)
        assert client.exists("key") == 0


@pytest.mark.parametrize("threads", [1, 4])
def test_events_have_arrived_after_an_advance(threads: int) -> None:
    with (
        Server(
            clock="virtual",
            threads=threads,
            notify_keyspace_events="Ex",
            notify_expired_values=True,
        ) as server,
        connect(server) as client,
        client.pubsub() as expired,
        client.pubsub() as values,
    ):
        expired.subscribe("__keyevent@0__:expired")
        values.psubscribe("__keyvalue@0__:*")
        for listener in (expired, values):
            assert listener.get_message(timeout=10) is not None
        for n in range(200):
            client.set(f"k{n}", f"v{n}", px=1 + 7919 * n % 10_007)
        order = sorted(range(200), key=lambda n: 7919 * n % 10_007)
        server.advance(5)
        # The events of all shards have arrived, in the order of the deadlines.
        due = [n for n in order if 1 + 7919 * n % 10_007 <= 5_000]
        assert messages(expired) == [("__keyevent@0__:expired", f"k{n}") for n in due]
        assert messages(values) == [(f"__keyvalue@0__:k{n}", f"v{n}") for n in due]
        server.advance(10)
        rest = order[len(due) :]
        assert [key for _, key in messages(expired)] == [f"k{n}" for n in rest]
        assert client.dbsize() == 0


def test_blocking_commands_time_out() -> None:
    with Server(clock="virtual", threads=2) as server, connect(server) as client:
        found: list[object] = []

        def wait(seconds: float) -> None:
            with connect(server) as mine:
                found.append((seconds, mine.blpop(["queue"], timeout=seconds)))

        waiters = [threading.Thread(target=wait, args=(seconds,)) for seconds in (5, 10)]
        for waiter in waiters:
            waiter.start()
        while client.info("clients")["blocked_clients"] < 2:
            time.sleep(0.002)
        server.advance(5)
        waiters[0].join()
        assert found == [(5, None)]
        client.rpush("queue", "late")
        waiters[1].join()
        assert found == [(5, None), (10, ("queue", "late"))]


def test_fields_of_hashes() -> None:
    with Server(clock="virtual") as server, connect(server) as client:
        client.hset("user", mapping={"name": "alice", "code": "1234"})
        assert client.hexpire("user", 60, "code") == [1]
        server.advance(60)
        assert client.hgetall("user") == {"name": "alice"}


def test_locks_expire() -> None:
    with Server(clock="virtual") as server, connect(server) as client:
        lock = client.lock("lock", timeout=30)
        assert lock.acquire(blocking=False)
        assert not client.lock("lock", timeout=30).acquire(blocking=False)
        server.advance(30)
        assert not lock.owned()
        assert client.exists("lock") == 0


def test_set_time() -> None:
    with Server(clock="virtual") as server, connect(server) as client:
        client.set("key", "value", exat=4_102_444_800)
        server.set_time(4_102_444_799.999)
        assert client.pttl("key") == 1
        server.set_time(server.now())
        server.set_time(4_102_444_800)
        assert server.now() == 4_102_444_800
        assert client.exists("key") == 0
        assert client.time() == (4_102_444_800, 0)
        with pytest.raises(ValueError, match="cannot go back"):
            server.set_time(4_102_444_799)


@pytest.mark.parametrize("seconds", [-1, -1e-9, math.nan, math.inf, -math.inf])
def test_invalid_times(seconds: float) -> None:
    with Server(clock="virtual") as server:
        before = server.now()
        with pytest.raises(ValueError, match="not a valid time"):
            server.advance(seconds)
        with pytest.raises(ValueError, match="not a valid time"):
            server.set_time(seconds)
        assert server.now() == before


@pytest.mark.parametrize("seconds", [1e300, 9.3e12])
def test_times_out_of_range(seconds: float) -> None:
    with Server(clock="virtual") as server:
        with pytest.raises(OverflowError, match="exceeds the range of the clock"):
            server.advance(seconds)
        with pytest.raises(OverflowError, match="exceeds the range of the clock"):
            server.set_time(seconds)


def test_real_clocks_cannot_be_advanced() -> None:
    with Server() as server:
        assert server.clock == "real"
        assert abs(server.now() - time.time()) < 60
        with pytest.raises(RuntimeError, match='create it with clock="virtual"'):
            server.advance(1)
        with pytest.raises(RuntimeError, match='create it with clock="virtual"'):
            server.set_time(5e9)


def test_only_a_running_server_has_a_time() -> None:
    server = Server(clock="virtual")
    for attempt in (server.now, lambda: server.advance(1), lambda: server.set_time(5e9)):
        with pytest.raises(RuntimeError, match="not running"):
            attempt()
    with server:
        server.advance(1)
    with pytest.raises(RuntimeError, match="not running"):
        server.advance(1)


def test_advance_while_others_stop_it() -> None:
    for _ in range(20):
        server = Server(clock="virtual", threads=2).start()
        ended = threading.Event()

        def move(server: BaseServer = server, ended: threading.Event = ended) -> None:
            try:
                while True:
                    server.advance(1)
            except RuntimeError:
                ended.set()

        mover = threading.Thread(target=move)
        mover.start()
        time.sleep(0.002)
        server.stop()
        mover.join()
        assert ended.is_set()


def test_asyncio() -> None:
    async def main(server: BaseServer) -> None:
        async with redis.asyncio.Redis(port=server.port, decode_responses=True) as client:
            waiting: asyncio.Future[Any] = asyncio.ensure_future(
                client.blpop(["queue"], timeout=60)
            )
            await client.set("key", "value", ex=30)
            while (await client.info("clients"))["blocked_clients"] < 1:
                await asyncio.sleep(0.002)
            server.advance(30)
            assert await client.get("key") is None
            assert not waiting.done()
            server.advance(30)
            assert await waiting is None

    with Server(clock="virtual") as server:
        asyncio.run(main(server))
