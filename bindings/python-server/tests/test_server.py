"""`Server`: starting, stopping, options, addresses, errors."""

from __future__ import annotations

import copy
import errno
import gc
import os
import pickle
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
from patience import ends_silently
from punctual_server import BaseServer
from redis.backoff import NoBackoff
from redis.retry import Retry
from tested import EXAMPLE, PACKAGE, Server

# A client's automatic retry would wait for seconds.
ONCE = Retry(NoBackoff(), 0)


def connect(server: BaseServer) -> redis.Redis:
    return redis.Redis.from_url(server.url, decode_responses=True, retry=ONCE)


def connects(server: BaseServer) -> bool:
    try:
        socket.create_connection(server.address, timeout=30).close()
    except ConnectionRefusedError:
        return False
    return True


def wait_until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_serves_redis_clients() -> None:
    with Server() as server, connect(server) as client:
        assert client.ping()
        client.set("greeting", "hello", ex=100)
        assert client.get("greeting") == "hello"
        assert client.ttl("greeting") == 100
        client.rpush("queue", "a", "b")
        assert client.blpop(["queue"]) == ("queue", "a")
        assert client.info("server")["redis_version"].startswith("7.")


def test_starts_and_stops_repeatedly() -> None:
    server = Server()
    assert (server.port, server.running) == (0, False)
    ports = set()
    for _ in range(3):
        assert server.start() is server
        server.start()
        assert server.running
        with connect(server) as client:
            assert client.dbsize() == 0
            client.set("key", "value")
        ports.add(server.port)
        server.stop()
        server.stop()
        assert not server.running
        assert not connects(server)
    # The port stays the same, so clients can reconnect.
    assert len(ports) == 1
    assert server.port in ports


def test_port_is_free_afterwards() -> None:
    with Server() as server, connect(server) as client:
        client.ping()
        port = server.port
    with Server(port) as other:
        assert other.port == port
        assert connects(other)


def test_port_in_use() -> None:
    with Server() as server:
        other = Server(server.port)
        with pytest.raises(OSError, match="Address already in use") as failure:
            other.start()
        assert failure.value.errno == errno.EADDRINUSE
        assert not other.running
        other.stop()


def test_listens_only_on_localhost_by_default() -> None:
    with Server() as server, connect(server) as client:
        assert client.config_get("bind") == {"bind": "127.0.0.1"}
        assert server.address == ("127.0.0.1", server.port)
        assert server.url == f"redis://127.0.0.1:{server.port}/0"
    with Server(bind=["0.0.0.0"]) as server:
        assert server.host == "127.0.0.1"
        assert connects(server)


def test_several_servers_are_independent() -> None:
    with Server() as one, Server() as two, connect(one) as first, connect(two) as second:
        first.set("key", "1")
        assert second.get("key") is None
        second.flushall()
        assert first.get("key") == "1"
        assert one.port != two.port


def test_several_threads() -> None:
    with Server(threads=4) as server:
        assert server.threads == 4

        def count() -> None:
            with connect(server) as client:
                for _ in range(100):
                    client.incr("count")

        counters = [threading.Thread(target=count) for _ in range(8)]
        for counter in counters:
            counter.start()
        for counter in counters:
            counter.join()
        with connect(server) as client:
            assert client.get("count") == "800"


def test_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "server.sock"
    with Server(None, unixsocket=path) as server:
        assert (server.port, server.unix_socket) == (0, str(path))
        assert server.url == f"unix://{path}?db=0"
        assert repr(server).startswith(f"<{PACKAGE}.Server on unix://{path}, ")
        with connect(server) as client:
            assert client.ping()
    assert not path.exists()
    with Server(bind="", unixsocket=path) as server, connect(server) as client:
        assert server.url == f"unix://{path}?db=0"
        assert client.ping()


def test_options_reach_the_server(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with (
        Server(
            maxclients=50,
            notify_keyspace_events="Ex",
            notify_expired_values=True,
            databases=3,
            proto_max_bulk_len="2mb",
            client_output_buffer_limit=["pubsub", "8mb", "4mb", 30],
            logfile=log,
        ) as server,
        connect(server) as client,
    ):
        assert client.config_get("maxclients", "notify-*", "databases", "proto-max-bulk-len") == {
            "maxclients": "50",
            "notify-keyspace-events": "xE",
            "notify-expired-values": "yes",
            "databases": "3",
            "proto-max-bulk-len": str(2 << 20),
        }
        limits = client.config_get("client-output-buffer-limit")
        assert "pubsub 8388608 4194304 30" in str(limits)
    assert "Ready to accept connections tcp" in log.read_text()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"maxclients": "many"}, "maxclients: argument couldn't be parsed into an integer"),
        ({"maxclients": 0}, "maxclients: argument must be between 1 and"),
        ({"maxclient": 5}, r"maxclient: Bad directive.*did you mean 'maxclients'\?"),
        ({"nonsense": 5}, "nonsense: Bad directive"),
        ({"notify_keyspace_events": "?"}, "notify-keyspace-events: Invalid event class"),
        ({"notify_expired_values": 1}, "notify-expired-values: argument must be 'yes' or 'no'"),
        ({"threads": 0}, "threads: argument must be between 1 and 128"),
        ({"clock": "virtul"}, "clock: argument.*must be one of"),
        ({"port": 70_000}, "port: 70000 is not between"),
        ({"port": None}, "nothing to listen on"),
        ({"bind": ""}, "nothing to listen on"),
        ({"bind": []}, "nothing to listen on"),
    ],
)
def test_wrong_options(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Server(**options).start()


@pytest.mark.parametrize("value", [None, 1.5, b"bytes", object(), {"a": 1}])
def test_wrong_types_of_options(value: Any) -> None:
    with pytest.raises(TypeError, match=f"maxclients: {type(value).__name__}"):
        Server(maxclients=value)


@pytest.mark.parametrize("port", ["7000", 7000.0, True])
def test_wrong_types_of_ports(port: Any) -> None:
    with pytest.raises(TypeError, match="is not an integer"):
        Server(port)


def test_option_values_are_case_insensitive() -> None:
    clock: Any = "VIRTUAL"
    with Server(clock=clock) as server:
        assert server.clock == "virtual"
        assert "virtual clock" in repr(server)
        server.advance(1)


def test_duplicate_options_are_refused() -> None:
    options: dict[str, Any] = {"PORT": 7000}
    with pytest.raises(TypeError, match="use the argument port"):
        Server(**options)


def test_options_without_effect_warn() -> None:
    with pytest.warns(UserWarning, match=rf"no effect in {PACKAGE}.Server: daemonize"):
        Server(daemonize=True)


def test_password() -> None:
    word = "p@ss/word \u00e9"
    with Server(requirepass=word) as server:
        stranger = redis.Redis(port=server.port, retry=ONCE)
        with stranger, pytest.raises(redis.AuthenticationError):
            stranger.ping()
        with connect(server) as client:
            assert client.ping()
        assert "word" not in repr(server)


def test_snapshots_need_a_named_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Server() as server, connect(server) as client:
        client.set("key", "value")
    assert list(tmp_path.iterdir()) == []
    kept = Server(dir=tmp_path, save="")
    with kept, connect(kept) as client:
        client.set("key", "value")
        client.save()
    with kept, connect(kept) as client:
        assert client.get("key") == "value"


def test_stop_ends_blocked_clients() -> None:
    with Server(threads=2) as server:
        ends: list[str] = []

        def wait() -> None:
            with connect(server) as client:
                try:
                    client.blpop(["nothing"], timeout=0)
                except redis.ConnectionError as error:
                    ends.append(type(error).__name__)

        def listen() -> None:
            with connect(server) as client, client.pubsub() as listener:
                listener.subscribe("channel")
                try:
                    for _ in listener.listen():
                        pass
                except redis.ConnectionError as error:
                    ends.append(type(error).__name__)

        clients = [threading.Thread(target=target) for target in (wait, wait, listen, listen)]
        for client in clients:
            client.start()
        with connect(server) as observer:
            wait_until(lambda: observer.info("clients")["blocked_clients"] == 2)
            wait_until(lambda: observer.pubsub_numsub("channel") == [("channel", 2)])
        server.stop()
        for client in clients:
            client.join()
    assert ends == ["ConnectionError"] * 4


def test_stop_from_several_threads() -> None:
    for _ in range(10):
        server = Server(threads=2).start()
        stoppers = [threading.Thread(target=server.stop) for _ in range(4)]
        for stopper in stoppers:
            stopper.start()
        for stopper in stoppers:
            stopper.join()
        assert not server.running


def test_client_may_shut_it_down() -> None:
    server = Server().start()
    with connect(server) as client:
        client.shutdown(nosave=True)
    wait_until(lambda: not server.running)
    with pytest.raises(RuntimeError, match="not running"):
        server.now()
    server.start()
    assert server.running
    server.stop()


def test_dropped_without_stop() -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        server = Server().start()
        port = server.port
        del server
        gc.collect()
    assert [warning.category for warning in told] == [ResourceWarning]
    assert f":{port}," in str(told[0].message)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=30)


def test_running_when_the_program_ends(tmp_path: Path) -> None:
    path = tmp_path / "server.sock"
    program = f"{EXAMPLE}server = package.Server(unixsocket={str(path)!r}).start()"
    ended = subprocess.run(
        [sys.executable, "-W", "always", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert f"ResourceWarning: not stopped: <{PACKAGE}.Server on redis://" in ended.stderr
    assert not path.exists()


def test_signals_are_left_to_the_program() -> None:
    program = """
import os, signal
with package.Server(threads=4) as server:
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    for _ in range(10):
        os.kill(os.getpid(), signal.SIGTERM)
        assert signal.sigwait({signal.SIGTERM}) == signal.SIGTERM
    assert server.running
"""
    ends_silently(EXAMPLE + program, timeout=60)


def test_repr() -> None:
    server = Server(threads=2, clock="virtual")
    shown = f"<{PACKAGE}.Server on redis://127.0.0.1:{{}}, virtual clock, 2 threads, {{}}>"
    assert repr(server) == shown.format(0, "stopped")
    with server:
        assert repr(server) == shown.format(server.port, "running")
    assert repr(server) == shown.format(server.port, "stopped")


def test_cannot_be_pickled_or_copied() -> None:
    with Server() as server:
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="pass its url instead"):
                attempt(server)


def test_is_exported_by_the_package() -> None:
    assert Server.__module__ == f"{PACKAGE}.server"


def test_many_servers_leave_no_open_files() -> None:
    def open_files() -> int:
        return len(os.listdir("/proc/self/fd"))

    with Server(threads=2):
        pass
    before = open_files()
    for _ in range(50):
        with Server(threads=2) as server, socket.create_connection(server.address):
            pass
    assert open_files() == before
