"""Commands without a client library."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest
from punctual_server import CommandError
from tested import Server


def test_replies_have_the_types_of_resp3() -> None:
    with Server() as server:
        client = server.client()
        assert client.call("SET", b"k", "v") == b"OK"
        assert client.call("GET", "k") == b"v"
        assert client.call("GET", "none") is None
        assert client.call("INCRBY", "n", 41) == 41
        assert client.call("INCRBYFLOAT", "n", 0.5) == b"41.5"
        assert client.call("HSET", "h", "f", "v") == 1
        assert client.call("HGETALL", "h") == {b"f": b"v"}
        assert client.call("SADD", "s", "a", "b") == 2
        assert client.call("SMEMBERS", "s") == {b"a", b"b"}
        client.call("ZADD", "z", 1.5, "m")
        assert client.call("ZSCORE", "z", "m") == 1.5
        assert client.call("LRANGE", "l", 0, -1) == []
        assert server.call("GET", "k") == b"v"


def test_errors_are_exceptions() -> None:
    with Server() as server:
        client = server.client()
        client.call("SET", "k", "v")
        with pytest.raises(CommandError, match=r"^ERR value is not an integer"):
            client.call("INCR", "k")
        with pytest.raises(CommandError, match="unknown command"):
            server.call("NOSUCH")
        with pytest.raises(ValueError, match="MONITOR"):
            client.call("MONITOR")
        with pytest.raises(ValueError, match="name"):
            client.call()
        wrong: Any = object()
        with pytest.raises(TypeError, match="object"):
            client.call("GET", wrong)
        first, second = client.pipeline([("INCR", "k"), ("GET", "k")])
        assert isinstance(first, CommandError)
        assert second == b"v"


def test_a_session_and_its_transaction() -> None:
    with Server() as server:
        client = server.client()
        assert client.pipeline([["MULTI"], ["INCR", "n"], ["EXEC"]]) == [b"OK", b"QUEUED", [1]]
        client.call("SELECT", 3)
        assert client.call("EXISTS", "n") == 0
        assert server.call("EXISTS", "n") == 1


def test_a_blocking_call_lets_other_threads_run() -> None:
    with Server() as server:
        popped: list[Any] = []
        waiting = threading.Thread(target=lambda: popped.append(pop(server.client())))

        def pop(client: Any) -> Any:
            return client.call("BLPOP", "list", 0)

        waiting.start()
        server.call("RPUSH", "list", "a")
        waiting.join()
        assert popped == [[b"list", b"a"]]


def test_messages_of_a_subscription() -> None:
    with Server(clock="virtual", notify_keyspace_events="Ex") as server:
        client = server.client()
        client.call("SUBSCRIBE", "__keyevent@0__:expired")
        assert client.message(timeout=0) is None
        server.call("SET", "k", "v", "PX", 100)
        server.advance(0.1)
        assert client.message() == [b"message", b"__keyevent@0__:expired", b"k"]


def test_a_stopped_server_refuses_calls() -> None:
    server = Server()
    with server:
        client = server.client()
    with pytest.raises(RuntimeError, match="not running"):
        client.call("PING")
    with pytest.raises(RuntimeError, match="not running"):
        server.client()


def test_a_signal_ends_a_wait() -> None:
    class StopWaitingError(Exception):
        pass

    def raise_it(*_: object) -> None:
        raise StopWaitingError

    with Server() as server:
        client = server.client()

        def interrupt_when_blocked() -> None:
            while b"blocked_clients:1" not in server.call("INFO", "clients"):
                pass
            os.kill(os.getpid(), signal.SIGUSR1)

        before = signal.signal(signal.SIGUSR1, raise_it)
        interrupter = threading.Thread(target=interrupt_when_blocked)
        try:
            interrupter.start()
            with pytest.raises(StopWaitingError):
                client.call("BLPOP", "list", 0)
        finally:
            interrupter.join()
            signal.signal(signal.SIGUSR1, before)
        with pytest.raises(RuntimeError, match="closed"):
            client.call("PING")
        assert server.call("PING") == b"PONG"
