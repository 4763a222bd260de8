"""Typical programs on `punctual.aio`: clients, streams, processes, threads."""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
from collections.abc import Coroutine
from typing import Any

import punctual.aio
import pytest
import redis.asyncio
from patience import ends_silently
from punctual import Server
from punctual.aio import EventLoop

SOON = 30
"""Time limit in seconds for immediate operations on a busy machine."""


def armed() -> int:
    loop: Any = asyncio.get_running_loop()
    return len(loop._scheduled)


def test_redis_asyncio() -> None:
    async def main(server: Server) -> None:
        async with redis.asyncio.Redis(port=server.port, decode_responses=True) as client:
            await asyncio.gather(*(client.set(f"key:{n}", n, px=20) for n in range(50)))
            listener: Any = client.pubsub()
            await listener.psubscribe("__keyevent@0__:expired")
            # A timeout of the client, then a timeout of asyncio.
            assert await client.blpop(["queue"], timeout=0.01) is None
            waiting = client.blpop(["queue"], timeout=0)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(waiting, 0.01)
            while await client.dbsize():
                await asyncio.sleep(0.001)
            await client.set("last", "one", px=1)
            async for message in listener.listen():
                if message["type"] == "pmessage" and message["data"] == "last":
                    break
            await listener.aclose()
            await client.rpush("queue", "late")
            assert await client.blpop(["queue"], timeout=SOON) == ("queue", "late")
        assert armed() == 0

    with Server(notify_keyspace_events="Ex") as server:
        punctual.aio.run(main(server))


def test_streams() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await asyncio.wait_for(reader.readline(), SOON):
            await asyncio.sleep(0.0005)
            writer.write(line.upper())
            await writer.drain()
        writer.close()

    async def ask(port: int, number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(5):
            writer.write(b"hello %d\n" % number)
            answer = await asyncio.wait_for(reader.readline(), SOON)
            assert answer == b"HELLO %d\n" % number
        writer.close()
        await writer.wait_closed()

    async def main() -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        await asyncio.gather(*(ask(port, number) for number in range(50)))
        server.close()
        await server.wait_closed()
        # The server's last handlers may still wait until their clients close the connections.
        end = asyncio.get_running_loop().time() + SOON
        while armed():
            assert asyncio.get_running_loop().time() < end
            await asyncio.sleep(0)

    punctual.aio.run(main(), debug=True)


def test_processes() -> None:
    async def main() -> tuple[bytes, int]:
        quick = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "print(input().upper())", stdin=-1, stdout=-1
        )
        out, _ = await asyncio.wait_for(quick.communicate(b"hello\n"), SOON)
        slow = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=-1)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(slow.wait(), 0.01)
        slow.kill()
        return out, await asyncio.wait_for(slow.wait(), SOON)

    assert punctual.aio.run(main()) == (b"HELLO\n", -signal.SIGKILL)


def test_calls_from_many_threads() -> None:
    loop = EventLoop()
    calls: list[int] = []

    def call(number: int) -> None:
        calls.append(number)
        if len(calls) == 8_000:
            loop.stop()

    def call_from_here() -> None:
        for number in range(1_000):
            loop.call_soon_threadsafe(call, number)

    callers = [threading.Thread(target=call_from_here) for _ in range(8)]
    loop.call_later(SOON, loop.stop)
    for caller in callers:
        loop.call_soon(caller.start)
    loop.run_forever()
    for caller in callers:
        caller.join()
    loop.close()
    assert sorted(calls) == sorted([*range(1_000)] * 8)


PROGRAMS = {
    "loops in threads": """
        async def tick():
            while True:
                await asyncio.sleep(0.0005)
        for _ in range(4):
            loop = EventLoop()
            loop.create_task(tick())
            threading.Thread(target=loop.run_forever, daemon=True).start()
        idle = EventLoop()
        idle.call_later(1000, print)
        threading.Thread(target=idle.run_forever, daemon=True).start()
        time.sleep(0.02)
    """,
    "callbacks are busy": """
        begun = threading.Barrier(4)
        def busy(*_):
            begun.wait()
            while True:
                sum(range(100))
        for debug, callback in [(False, busy), (True, busy), (False, lambda: 1 // 0)]:
            loop = EventLoop()
            loop.set_debug(debug)
            loop.set_exception_handler(busy)
            loop.call_later(0, callback)
            threading.Thread(target=loop.run_forever, daemon=True).start()
        begun.wait()
    """,
    "an idle loop wakes at the end": """
        loop = EventLoop()
        loop.call_later(1000, print)
        ready = threading.Event()
        loop.call_soon(ready.set)
        threading.Thread(target=loop.run_forever, daemon=True).start()
        ready.wait()
        time.sleep(0.01)
        class Late:
            send, sleep = loop._csock.send, time.sleep
            def __del__(self):
                self.send(b"x")
                type(self).sleep(0.05)
        sys.late = Late()
    """,
    "a loop, timers and a server": """
        async def tick():
            while True:
                await asyncio.sleep(0.0005)
        loop = EventLoop()
        loop.create_task(tick())
        threading.Thread(target=loop.run_forever, daemon=True).start()
        server = punctual.Server(clock="virtual").start()
        def advance():
            with contextlib.suppress(RuntimeError):  # the server has stopped
                while True:
                    server.advance(1)
        for _ in range(2):
            threading.Thread(target=advance, daemon=True).start()
        ticker = Ticker(0.001)
        after_func(0.001, lambda: time.sleep(60))
        time.sleep(0.02)
    """,
    "Ctrl-C with everything alive": """
        async def main():
            with punctual.Server(threads=2) as server:
                ticker, timer = Ticker(0.001), after_func(0.001, lambda: time.sleep(60))
                asyncio.get_running_loop().call_later(1000, print)
                threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
                await asyncio.sleep(1000)
        try:
            punctual.aio.run(main())
        except KeyboardInterrupt:
            pass
        else:
            sys.exit("not interrupted")
    """,
    "a fork with everything alive": """
        async def main():
            with punctual.Server() as server:
                ticker = Ticker(0.001)
                asyncio.get_running_loop().call_later(0.01, sys.exit, "fired in the parent")
                child = os.fork()
                if child == 0:
                    asyncio._set_running_loop(None)
                    async def theirs():
                        await asyncio.sleep(0.001)
                        with punctual.Server() as mine:
                            Ticker(0.001).c.recv()
                            return mine.running and not server.running
                    loop = EventLoop()
                    done = loop.run_until_complete(theirs())
                    loop.close()
                    os._exit(0 if done else 1)
                status = os.waitpid(child, 0)[1]
                if status:
                    sys.exit(f"the child: {status}")
                ticker.c.recv()
                assert server.running
                try:
                    await asyncio.sleep(1000)
                except asyncio.CancelledError:
                    pass
        try:
            punctual.aio.run(main())
        except SystemExit as end:
            if str(end) != "fired in the parent":
                raise
    """,
}

HEAD = """
import asyncio, contextlib, os, signal, sys, threading, time
import punctual, punctual.aio
from punctual.aio import EventLoop
from punctual.time import Ticker, after_func
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_ends(name: str) -> None:
    """Each program ends by itself, soon, and without output."""
    program = HEAD + "\n".join(line[8:] for line in PROGRAMS[name].splitlines())
    for _ in range(2):
        ends_silently(program, "-W", "ignore", timeout=60)


def test_nested_runs_are_refused() -> None:
    async def inner() -> None: ...

    async def main() -> None:
        loop = asyncio.get_running_loop()
        coroutine: Coroutine[Any, Any, None] = inner()
        for run in (punctual.aio.run, asyncio.run, loop.run_until_complete):
            with pytest.raises(RuntimeError, match="running"):
                run(coroutine)
        coroutine.close()
        with pytest.raises(RuntimeError, match="Cannot close a running event loop"):
            loop.close()
        await asyncio.sleep(0.001)

    punctual.aio.run(main())
