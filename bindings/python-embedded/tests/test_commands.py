"""Own commands that functions of Python run."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from patience import PATIENCE, until
from punctual_embedded import CommandError, Invocation, Server

TAKE = """
def take(invocation, key, amount=b"1"):
    "Takes an amount if there is as much."
    left = invocation.call("DECRBY", key, amount)
    if left < 0:
        invocation.call("INCRBY", key, amount)
        raise CommandError("NOSTOCK not enough left")
    return left
"""


def with_take(**options: Any) -> Server:
    server = Server(**options)
    names: dict[str, Any] = {"CommandError": CommandError}
    exec(TAKE, names)
    server.command("take", keys=1, complexity="O(1)")(names["take"])
    return server


@pytest.fixture(params=[1, 3])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with with_take(threads=request.param, clock="virtual") as server:
        server.call("SET", "stock", 10)
        yield server


def test_a_command_runs_wherever_commands_run(server: Server) -> None:
    assert server.call("TAKE", "stock", 3) == 7
    with pytest.raises(CommandError, match=r"^NOSTOCK not enough left$"):
        server.call("take", "stock", 8)
    with redis.Redis(port=server.port) as client:
        assert client.execute_command("TAKE", "stock") == 6
        with client.pipeline() as transaction:
            transaction.execute_command("TAKE", "stock", 1)
            transaction.get("stock")
            assert transaction.execute() == [5, b"5"]
        script = "return redis.call('take', KEYS[1], 2)"
        assert client.eval(script, 1, "stock") == 3
    server.call("TIMER", "SET", "t", "IN", 50, "DO", "TAKE", "stock", 2)
    server.advance(0.05)
    assert server.call("GET", "stock") == b"1"


def test_the_parameters_are_the_arity_and_the_docs(server: Server) -> None:
    for words in (("TAKE",), ("TAKE", "stock", 1, 2)):
        with pytest.raises(CommandError, match="wrong number of arguments for 'take'"):
            server.call(*words)
    docs = server.call("COMMAND", "DOCS", "take")[b"take"]
    assert docs[b"summary"] == b"Takes an amount if there is as much."
    assert docs[b"complexity"] == b"O(1)"
    assert [argument[b"name"] for argument in docs[b"arguments"]] == [b"key", b"amount"]
    info = server.call("COMMAND", "INFO", "take")[0]
    assert info[1] == -2
    assert b"write" in info[2]
    assert server.call("COMMAND", "GETKEYS", "TAKE", "stock", 1) == [b"stock"]


def test_rules_apply_to_the_command_and_to_what_it_calls(server: Server) -> None:
    server.call("ACL", "SETUSER", "u", "on", ">p", "~stock", "+take", "+decrby")
    with redis.Redis(port=server.port, username="u", password="p") as client:
        assert client.execute_command("TAKE", "stock", 4) == 6
        with pytest.raises(redis.ResponseError, match="can't run this command or subcommand"):
            client.execute_command("TAKE", "stock", 7)
        with pytest.raises(redis.ResponseError, match="permissions to access"):
            client.execute_command("TAKE", "other", 1)


def test_replies_have_the_types_of_resp3() -> None:
    server = Server()
    values: list[Any] = [
        *(b"bytes", "text \u00e4", 7, -1, 0.5, True, False, None, 1 << 70),
        *([1, ["two"]], (b"a",), {"key": [1.5]}, {3}, frozenset({b"m"}), bytearray(b"array")),
        [CommandError("no code"), CommandError("CODE text")],
    ]

    @server.command("value", flags=["readonly", "fast"])
    def value(_: Invocation, number: bytes) -> Any:
        return values[int(number)]

    assert value is not None
    with server:
        replies = [server.call("VALUE", number) for number in range(len(values) - 1)]
        assert replies == [
            *(b"bytes", "text \u00e4".encode(), 7, -1, 0.5, True, False, None, 1 << 70),
            *([1, [b"two"]], [b"a"], {b"key": [1.5]}, {3}, {b"m"}, b"array"),
        ]
        errors = server.call("VALUE", len(values) - 1)
        assert [str(error) for error in errors] == ["ERR no code", "CODE text"]


def test_exceptions_are_errors_and_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    server = Server()
    recursive: list[Any] = []
    recursive.append(recursive)

    @server.command("fail", keys=1)
    def fail(invocation: Invocation, key: bytes, kind: bytes) -> Any:
        invocation.call("SET", key, "before")
        if kind == b"exit":
            sys.exit(3)
        if kind == b"raise":
            raise ValueError("two\nlines")
        return recursive if kind == b"deep" else object()

    with server, caplog.at_level(logging.ERROR, "punctual_embedded"):
        for kind, error in (
            ("raise", "^ERR ValueError: two lines$"),
            ("exit", "^ERR SystemExit: 3$"),
            ("deep", "^ERR ValueError: a reply must not be nested"),
            ("other", "^ERR TypeError: a reply must be bytes, .* not object$"),
        ):
            with pytest.raises(CommandError, match=error):
                server.call("FAIL", "key", kind)
        # What a function has called before its exception remains in force.
        assert server.call("GET", "key") == b"before"
    assert len([record for record in caplog.records if record.exc_info]) == 4
    assert "fail" in caplog.text


def test_a_function_calls_the_server_only_by_its_invocation() -> None:
    server = Server(clock="virtual")
    kept: list[Invocation] = []

    @server.command("look", flags=["readonly"])
    def look(invocation: Invocation, *words: bytes) -> Any:
        kept.append(invocation)
        seen: list[Any] = [server.port, server.running, server.now() == invocation.now()]
        acts: list[tuple[type[Exception], Callable[[], object]]] = [
            (RuntimeError, lambda: server.call("PING")),
            (RuntimeError, lambda: server.client().call("PING")),
            (RuntimeError, lambda: server.advance(1)),
            (CommandError, lambda: invocation.call("LOOK")),
            (CommandError, lambda: invocation.call("SET", "key", "value")),
            (ValueError, invocation.call),
        ]
        for error, act in acts:
            with pytest.raises(error) as raised:
                act()
            seen.append(str(raised.value))
        return seen + list(words)

    with server:
        seen = server.call("LOOK", "a", "b")
        assert seen[:3] == [server.port, True, True]
        texts = [text.decode() for text in seen[3:]]
        assert [text.split()[0] for text in texts[:3]] == ["the"] * 3, texts
        assert all("first argument" in text for text in texts[:3])
        assert "another command of the program" in texts[3]
        assert "read-only script" in texts[4]
        assert "name" in texts[5]
        assert texts[6:] == ["a", "b"]
        with pytest.raises(RuntimeError, match="has ended"):
            kept[0].call("PING")


def test_threads_of_a_function_may_use_its_invocation() -> None:
    server = Server()

    @server.command("fan", keys=1)
    def fan(invocation: Invocation, key: bytes) -> Any:
        threads = [threading.Thread(target=lambda: invocation.call("INCR", key)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return invocation.call("GET", key)

    with server:
        assert server.call("FAN", "n") == b"8"


def test_many_threads_call_commands() -> None:
    with with_take(threads=2) as server:
        server.call("SET", "stock", 400)
        threads = [
            threading.Thread(target=lambda: [server.call("TAKE", "stock") for _ in range(50)])
            for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.call("GET", "stock") == b"0"


def test_the_log_and_replicas_have_what_a_function_calls(tmp_path: Path) -> None:
    files: dict[str, Any] = {"dir": tmp_path, "appendonly": True}
    primary = with_take(repl_diskless_sync_delay=0, **files)
    with primary as server, Server(replicaof=f"127.0.0.1 {server.port}") as replica:
        server.call("SET", "stock", 10)
        server.call("TAKE", "stock", 3)
        with pytest.raises(CommandError, match="NOSTOCK"):
            server.call("TAKE", "stock", 8)
        client = server.client()
        client.call("MULTI")
        client.call("TAKE", "stock", 2)
        client.call("EXEC")
        with redis.Redis(port=server.port) as redis_client:
            redis_client.incr("after")
            assert redis_client.wait(1, int(PATIENCE * 1000)) == 1
        assert replica.call("GET", "stock") == b"5"
    # A server without the command can load the file.
    with Server(**files) as server:
        assert server.call("GET", "stock") == b"5"


class Blocked:
    """A server whose command waits until the test lets it end."""

    def __init__(self) -> None:
        self.server = Server(busy_reply_threshold=1)
        self.began = threading.Semaphore(0)
        self.release = threading.Semaphore(0)
        self.ends: list[str] = []
        self.replies: list[Any] = []

        @self.server.command("block", flags=["readonly"])
        def block(invocation: Invocation) -> Any:
            self.began.release()
            assert self.release.acquire(timeout=PATIENCE)
            try:
                return invocation.call("PING")
            except RuntimeError as error:
                self.ends.append(str(error))
                raise

    def call(self) -> None:
        try:
            self.replies.append(self.server.call("BLOCK"))
        except (CommandError, RuntimeError) as error:
            self.replies.append(str(error))

    def call_aside(self) -> threading.Thread:
        thread = threading.Thread(target=self.call)
        thread.start()
        assert self.began.acquire(timeout=PATIENCE)
        return thread


def test_a_slow_function_can_be_killed() -> None:
    blocked = Blocked()
    with blocked.server as server:
        waiting = blocked.call_aside()
        with pytest.raises(CommandError, match="BUSY"):
            server.call("GET", "key")
        assert server.call("SCRIPT", "KILL") == b"OK"
        waiting.join()
        assert "killed" in blocked.replies.pop()
        assert server.call("GET", "key") is None
        # The only thread is still in the function.
        with pytest.raises(CommandError, match="has been ended"):
            server.call("BLOCK")
        blocked.release.release(2)
        while not blocked.replies or blocked.replies[-1] != b"PONG":
            blocked.call()
            blocked.release.release()
    assert blocked.ends == ["the command has ended"]


def test_a_stop_does_not_wait_for_a_function() -> None:
    blocked = Blocked()
    blocked.server.start()
    waiting = blocked.call_aside()
    blocked.server.stop()
    waiting.join()
    assert len(blocked.replies) == 1
    assert blocked.replies[0] != b"PONG"
    # A restart has another thread.
    blocked.release.release(2)
    with blocked.server as server:
        assert server.call("BLOCK") == b"PONG"


def test_a_function_may_stop_its_server() -> None:
    server = Server()

    @server.command("bye", flags=["readonly"])
    def bye(_: Invocation) -> str:
        server.stop()
        return "never seen"

    server.start()
    with pytest.raises((RuntimeError, CommandError)):
        server.call("BYE")
    until(lambda: not server.running)


def test_a_dropped_server_ends_its_thread() -> None:
    servers = [with_take().start()]
    assert "punctual-commands" in {thread.name for thread in threading.enumerate()}
    with pytest.warns(ResourceWarning, match="not stopped"):
        servers.clear()
    until(lambda: "punctual-commands" not in {thread.name for thread in threading.enumerate()})


def test_wrong_declarations_are_refused() -> None:
    server = with_take()

    def fine(_: Invocation) -> None: ...

    for error, options in (
        ("flags: an own command cannot have the flag 'blocking'", {"flags": ["blocking"]}),
        ("flags: a command has either", {"flags": []}),
        ("keys: positions begin at 1", {"keys": (0, 1, 1)}),
        ("categories: there is no ACL category 'x'", {"categories": ["x"]}),
        ("name: 'Two words' is not", {"name": "Two words"}),
        ("name: the server has a command 'get'", {"name": "get"}),
        ("name: the server has a command 'take'", {"name": "take"}),
    ):
        arguments: Any = {"name": "fine", **options}
        with pytest.raises(ValueError, match=error):
            server.command(**arguments)(fine)
    with pytest.raises(TypeError, match="first argument"):
        server.command("fine")(lambda: None)
    with pytest.raises(TypeError, match="keyword"):
        server.command("fine")(lambda invocation, *, key: None)
    with server, pytest.raises(RuntimeError, match="before its start"):
        server.command("fine")(fine)


EXITS = """
import threading
from punctual_embedded import Server
server = Server()
began = threading.Event()

@server.command("sleep", flags=["readonly"])
def sleep(invocation):
    began.set()
    {wait}

server.start()
client = server.client()

def call():
    try:
        client.call("SLEEP")
    except Exception:
        pass

threading.Thread(target=call, daemon=True).start()
began.wait()
print("the program ends")
"""


@pytest.mark.parametrize("wait", ["threading.Event().wait()", "while True: pass", "return 1"])
def test_a_program_ends_while_a_function_runs(wait: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", EXITS.format(wait=wait)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert ended.stdout == "the program ends\n"
    assert "Fatal" not in ended.stderr
