"""What only a child process has: a life of its own, which ends with its parent."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import redis
import redis.asyncio
from patience import until
from punctual_server import Client, CommandError, Server
from tested import CHILD

pytestmark = pytest.mark.skipif(not CHILD, reason="the server is in this process")


def ended(pid: int) -> bool:
    """Returns whether a process has ended. A zombie has, but nobody has collected its status."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].startswith("Z")
    except FileNotFoundError:
        return True


def pid_of(server: Server) -> int:
    pid: int = redis.Redis.from_url(server.url).info("server")["process_id"]
    return pid


def test_it_ends_when_its_parent_is_killed() -> None:
    program = """
import punctual_server, redis, sys, time
server = punctual_server.Server().start()
print(redis.Redis(port=server.port).info("server")["process_id"], flush=True)
time.sleep(1000)
"""
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    with parent:
        pid = int(parent.stdout.readline())
        assert not ended(pid)
        parent.kill()
    until(lambda: ended(pid))


def test_a_start_from_a_thread_outlives_the_thread() -> None:
    async def start(server: Server) -> None:
        await server.start_async()

    server = Server()
    # The event loop ends with its threads, one of which has started the server.
    asyncio.run(start(server))
    assert server.call("PING") == b"PONG"
    server.stop()


def test_a_killed_server_has_stopped() -> None:
    server = Server().start()
    os.kill(pid_of(server), signal.SIGKILL)
    until(lambda: not server.running)
    with pytest.raises(RuntimeError, match="not running"):
        server.call("PING")
    with server:
        assert server.call("PING") == b"PONG"


def test_ctrl_c_reaches_only_the_program() -> None:
    with Server() as server:
        assert os.getpgid(pid_of(server)) != os.getpgrp()


def test_a_failed_start_shows_the_log(tmp_path: Path) -> None:
    (tmp_path / "dump.rdb").write_bytes(b"REDIS0011 and then garbage")
    with pytest.raises(RuntimeError, match=r"did not start:(?s:.)*Its log:\n(?s:.)*dump.rdb"):
        Server(dir=tmp_path, dbfilename="dump.rdb").start()


def test_the_log_of_a_running_server() -> None:
    with Server() as server:
        assert any("Ready to accept connections" in line for line in server.log)
    assert server.log[-1].endswith("bye bye...")


def test_its_own_folder_is_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with Server() as server:
        (folder,) = tmp_path.iterdir()
        assert server.call("CONFIG", "GET", "dir") == {b"dir": str(folder).encode()}
        server.call("SET", "key", "value")
        server.call("SAVE")
        assert (folder / "dump.rdb").exists()
    assert list(tmp_path.iterdir()) == []


def test_own_commands_need_another_package() -> None:
    with pytest.raises(RuntimeError, match=r"take needs .*pip install punctual-embedded"):
        Server().command("take", keys=1)


def test_lines_with_several_words() -> None:
    with (
        Server(user="ann on >secret ~* +@all", rename_command="KEYS LIST") as server,
        redis.Redis(port=server.port, username="ann", password="secret") as client,
    ):
        assert client.execute_command("LIST", "*") == []


def test_calls_leave_no_connection() -> None:
    with Server(maxclients=1, clock="virtual") as server:
        client = server.client()
        with pytest.raises(CommandError, match="max number of clients"):
            server.call("PING")
        assert len(client.call("CLIENT", "LIST").splitlines()) == 1
        client.quit()
        for _ in range(100):
            server.advance(1)


def test_all_kinds_of_replies() -> None:
    with Server() as server:
        client = server.client()
        script = "redis.setresp(3); return {{double=1.5}, {big_number='123456789012345678901'}}"
        assert client.call("EVAL", script, 0) == [1.5, 123456789012345678901]
        assert client.call("EVAL", "redis.setresp(3); return redis.call('get', 'x')", 0) is None
        assert client.call("EVAL", "redis.setresp(3); return {map={a=1}}", 0) == {b"a": 1}
        assert client.call("EVAL", "redis.setresp(3); return {set={a=true}}", 0) == {b"a"}
        assert client.call("EVAL", "redis.setresp(3); return true", 0) is True
        assert b"redis_version:" in client.call("INFO", "server")
        with pytest.raises(CommandError, match=r"^OOPS it failed$"):
            client.call("EVAL", "return redis.error_reply('OOPS it failed')", 0)
        assert client.call("ECHO", b"x" * 1_000_000) == b"x" * 1_000_000


def test_messages_arrive_beside_replies() -> None:
    with Server() as server:
        listener = server.client()
        assert listener.call("SUBSCRIBE", "c") == [b"subscribe", b"c", 1]
        server.call("PUBLISH", "c", "first")
        assert listener.call("PING") == b"PONG"
        server.call("PUBLISH", "c", "second")
        assert listener.message() == [b"message", b"c", b"first"]
        assert listener.message(timeout=30) == [b"message", b"c", b"second"]
        assert listener.message(timeout=0.001) is None


def test_a_client_of_a_unix_socket_with_a_password(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with Server(None, unixsocket=path, requirepass="x y") as server:
        assert server.call("PING") == b"PONG"
        with pytest.raises(CommandError, match="WRONGPASS"):
            Client(str(path), b"wrong")


def test_asyncio() -> None:
    async def main() -> None:
        async with (
            Server(clock="virtual") as server,
            redis.asyncio.Redis.from_url(server.url) as client,
        ):
            waiting = asyncio.ensure_future(client.blpop(["queue"], timeout=60))
            while (await client.info("clients"))["blocked_clients"] < 1:
                await asyncio.sleep(0)
            before = server.now()
            assert await server.advance_async(59) == pytest.approx(before + 59, abs=1e-6)
            assert not waiting.done()
            await server.set_time_async(before + 60)
            assert await waiting is None
        assert not server.running

    asyncio.run(main())


def test_a_time_of_the_clock_can_be_set() -> None:
    with Server(clock="virtual") as server:
        server.set_time(server.now())
        assert abs(server.now() - time.time()) < 60
