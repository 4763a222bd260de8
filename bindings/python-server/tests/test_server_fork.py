"""A fork of a process with a server: the child can connect to the server, but not stop it."""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Iterator

import pytest
import redis
from in_a_child import in_a_child
from punctual_server import BaseServer
from tested import Server

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@pytest.fixture
def server() -> Iterator[BaseServer]:
    with Server(threads=2, clock="virtual") as server:
        yield server


def test_child_is_a_client(server: BaseServer) -> None:
    with redis.Redis(port=server.port) as client:
        client.set("from", "parent")

        def child() -> None:
            with redis.Redis.from_url(server.url) as mine:
                assert mine.get("from") == b"parent"
                mine.set("from", "child")

        assert in_a_child(child) == 0
        assert client.get("from") == b"child"


def test_child_can_neither_stop_nor_advance_it(server: BaseServer) -> None:
    parent = os.getpid()

    def child() -> None:
        assert not server.running
        assert repr(server).endswith(", of another process>")
        for attempt in (server.start, server.now, lambda: server.advance(1)):
            with pytest.raises(RuntimeError, match=f"belongs to process {parent}"):
                attempt()
        server.stop()
        server.__exit__(None, None, None)

    before = server.now()
    assert in_a_child(child) == 0
    assert server.running
    assert server.advance(1) == before + 1
    with redis.Redis(port=server.port) as client:
        assert client.ping()


def test_child_may_drop_it() -> None:
    servers = [Server().start()]

    def child() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            servers.clear()

    assert in_a_child(child) == 0
    with redis.Redis(port=servers[0].port) as client:
        assert client.ping()
    servers[0].stop()


def test_child_can_start_its_own_servers(server: BaseServer) -> None:
    def child() -> None:
        with Server(clock="virtual") as mine, redis.Redis(port=mine.port) as client:
            client.set("key", "value", ex=5)
            mine.advance(5)
            assert client.get("key") is None

    assert in_a_child(child) == 0


def test_child_can_use_a_server_not_yet_started() -> None:
    server = Server()

    def child() -> None:
        with server, redis.Redis(port=server.port) as client:
            assert client.ping()

    assert in_a_child(child) == 0
    child()


def test_stop_ends_connections_that_a_child_inherited() -> None:
    """Closing the sockets in the parent does not suffice: they are open in the child as well."""
    release, wait = os.pipe()
    with Server() as server:
        client = socket.create_connection(server.address)
        client.sendall(b"PING\r\n")
        assert client.recv(100) == b"+PONG\r\n"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            os.close(wait)
            os.read(release, 1)
            os._exit(0)
        os.close(release)
        port = server.port
    client.settimeout(30)
    assert client.recv(100) == b""
    client.close()
    with Server(port) as other, redis.Redis(port=other.port) as again:
        assert again.ping()
    os.close(wait)
    assert os.waitpid(child, 0)[1] == 0
