"""`make bench-python`: timers, the names of pygolang, gevent, the loop `punctual.aio`, the server.

Each round measures every contender once, in this process; the first round only warms up. A line
shows the median of the rounds, the lowest and the highest, and the first contender's median divided
by this one. A *bar* is a limit for the figures of this package; a line PASS or MISS says whether
the run keeps it. Peers that are not installed are left out, with their bars.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import sys
import threading
import time
from collections.abc import Awaitable, Coroutine, Sequence
from statistics import median
from typing import Any, Callable

from punctual.aio import EventLoop
from punctual.time import Timer, after_func

__all__ = ["main"]

# Makes one measurement and returns its figure.
Measure = Callable[[], float]
# A contender, a limit and a peer: the contender's figure divided by the peer's figure is at most
# the limit. Without a peer, the limit applies to the contender's figure itself.
Bar = tuple[str, float, "str | None"]

_OURS = "punctual"
_TOUCHED = "punctual, channel touched"
# A deadline in seconds that is after the end of the run.
_LATER = 3_600.0
# Number of timers that `_churn` arms per iteration of the loop.
_PER_TURN = 1_000


def main(argv: Sequence[str] | None = None) -> None:
    """Run one benchmark. `argv` are the program's arguments by default."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parts = {
        "time": _time,
        "golang": _golang,
        "gevent": _gevent,
        "aio": _aio,
        "server": _server,
    }
    parser.add_argument("part", choices=parts, help="what to measure")
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each measurement [9]")
    parser.add_argument(
        "--live", type=int, default=1_000_000, help="aio: number of armed timers [1000000]"
    )
    options = parser.parse_args(argv)
    print(f"Python {sys.version.split()[0]}; {options.rounds} rounds; medians (lowest-highest)")
    parts[options.part](options)


def _compare(
    title: str, unit: str, contenders: dict[str, Measure], rounds: int, bars: Sequence[Bar] = ()
) -> None:
    print(f"\n{title}")
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(rounds + 1):
        for name, measure in contenders.items():
            gc.collect()
            figure = measure()
            if round_ > 0:
                figures[name].append(figure)
    middle = {name: median(values) for name, values in figures.items()}
    first = next(iter(middle.values()))
    for name, values in figures.items():
        low, high = _text(min(values)), _text(max(values))
        text = f"{_text(middle[name]):>10} {unit}  ({low}-{high})"
        print(f"  {name:<26}{text:<44}{first / middle[name]:7.3f}x", flush=True)
    for name, limit, peer in bars:
        if peer is None or peer in middle:
            figure = middle[name] / (middle[peer] if peer else 1.0)
            bar = f"{limit:g}x {peer}" if peer else f"{limit:g} {unit}"
            print(f"  {'PASS' if figure <= limit else 'MISS'}: {name} {figure:.3f}, bar {bar}")


def _text(value: float) -> str:
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


def _peer(name: str) -> Any:
    """Import a module to compare with, if it is installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        print(f"skipped: {name} is not installed")
        return None


def _loops() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
        "asyncio": asyncio.SelectorEventLoop
    }
    uvloop = _peer("uvloop")
    if uvloop is not None:
        loops["uvloop"] = uvloop.new_event_loop
    return loops


def _nothing() -> None:
    pass


def _ns_each(begin: int, count: int) -> float:
    return (time.perf_counter_ns() - begin) / count


# --- time ------------------------------------------------------------------------------------


def _time(options: argparse.Namespace) -> None:
    """Measure timers that are stopped or fire. pygolang 0.1 starts a thread for each of them."""
    loops = {name: make() for name, make in _loops().items()}
    golang = _peer("golang.time")
    stopped: dict[str, Measure] = {_OURS: _stopped, _TOUCHED: _touched_and_stopped}
    fired: dict[str, Measure] = {_OURS: lambda: _fired(after_func, 50_000)}
    for name, loop in loops.items():
        stopped[name] = lambda loop=loop: loop.run_until_complete(_churn(20_000))  # type: ignore[misc]
        fired[name] = lambda loop=loop: loop.run_until_complete(_loop_fired(50_000))  # type: ignore[misc]
    if golang is not None:
        stopped["pygolang"] = lambda: _golang_stopped(golang.Timer)
        fired["pygolang"] = lambda: _fired(golang.after_func, 2_000)
    bars: list[Bar] = [
        (ours, limit, peer)
        for ours in (_OURS, _TOUCHED)
        for limit, peer in ((0.4, "uvloop"), (0.02, "pygolang"))
    ]
    _compare("Timer(10) and stop", "ns", stopped, options.rounds, bars)
    title = "after_func(1 ms), armed and fired"
    _compare(title, "ns", fired, options.rounds, [(_OURS, 0.05, "pygolang")])
    for loop in loops.values():
        loop.close()


def _stopped() -> float:
    begin = time.perf_counter_ns()
    for _ in range(20_000):
        Timer(10).stop()
    return _ns_each(begin, 20_000)


def _touched_and_stopped() -> float:
    """Also read `timer.c`, like a program that receives from the channel."""
    begin = time.perf_counter_ns()
    for _ in range(20_000):
        timer = Timer(10)
        timer.c  # noqa: B018 - creates the channel's object
        timer.stop()
    return _ns_each(begin, 20_000)


def _golang_stopped(new: Callable[[float], Any]) -> float:
    begin = time.perf_counter_ns()
    for _ in range(100):
        new(0.05).stop()  # the timer's thread sleeps on until the deadline
    each = _ns_each(begin, 100)
    time.sleep(0.08)  # until all threads have ended
    return each


def _fired(after_func: Callable[[float, Callable[[], None]], object], count: int) -> float:
    calls: list[None] = []
    over = threading.Event()

    def call() -> None:
        calls.append(None)  # atomic: several threads may call this function
        if len(calls) >= count:
            over.set()

    begin = time.perf_counter_ns()
    for _ in range(count):
        after_func(0.001, call)
    over.wait()
    return _ns_each(begin, count)


async def _loop_fired(count: int) -> float:
    loop = asyncio.get_running_loop()
    over = loop.create_future()
    begin = time.perf_counter_ns()
    for _ in range(count - 1):
        loop.call_later(0.001, _nothing)
    loop.call_later(0.001, over.set_result, None)
    await over
    return _ns_each(begin, count)


# --- aio -------------------------------------------------------------------------------------


def _aio(options: argparse.Namespace) -> None:
    """Measure cancelled timers beside live ones, a timeout, and many timers due at once."""
    loops = {_OURS: EventLoop, **_loops()}
    live, rounds = options.live, options.rounds
    ready = {name: make() for name, make in loops.items()}
    for loop in ready.values():
        for number in range(live):
            loop.call_later(_LATER + number * 1e-3, _nothing)
    gc.freeze()  # the garbage collector must not visit the live timers of all contenders
    # asyncio removes cancelled timers when they are more than half of its heap. Twice the
    # number of live timers is enough for that.
    churn: dict[str, Measure] = {
        name: lambda loop=loop: loop.run_until_complete(_churn(max(100_000, 2 * live)))  # type: ignore[misc]
        for name, loop in ready.items()
    }
    title = f"call_later and cancel, {live:,} live"
    _compare(title, "ns", churn, rounds, [(_OURS, 0.5, "asyncio")])
    gc.unfreeze()
    for loop in ready.values():
        loop.close()

    def anew(work: Callable[[int], Coroutine[Any, Any, float]], count: int) -> dict[str, Measure]:
        """Return measurements that create a new loop each time."""
        return {
            name: lambda make=make: _run(make(), work(count))  # type: ignore[misc]
            for name, make in loops.items()
        }

    title = "asyncio.wait_for, pending once"
    _compare(title, "ns", anew(_wait_for, 20_000), rounds, [(_OURS, 0.8, "asyncio")])
    title = f"the longest turn, {live:,} due at once"
    _compare(title, "ms", anew(_burst, live), rounds, [(_OURS, 5.0, None)])


def _run(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, float]) -> float:
    try:
        return loop.run_until_complete(work)
    finally:
        loop.close()


async def _churn(timers: int) -> float:
    """Arm and cancel timers, `_PER_TURN` of them in each iteration of the loop."""
    call_later = asyncio.get_running_loop().call_later
    begin = time.perf_counter_ns()
    for _ in range(timers // _PER_TURN):
        for _ in range(_PER_TURN):
            call_later(10.0, _nothing).cancel()
        await asyncio.sleep(0)
    return _ns_each(begin, timers)


async def _wait_for(times: int) -> float:
    async def pending_once() -> None:
        await asyncio.sleep(0)

    begin = time.perf_counter_ns()
    for _ in range(times):
        await asyncio.wait_for(pending_once(), 10.0)
    return _ns_each(begin, times)


async def _burst(timers: int) -> float:
    """Let all timers fall due at once, and return the longest iteration in milliseconds."""
    loop = asyncio.get_running_loop()
    when = loop.time()
    for _ in range(timers):
        loop.call_at(when, _nothing)
    gc.collect()
    gc.freeze()
    over = loop.create_future()
    loop.call_at(when, over.set_result, None)
    try:
        return await _longest_turn(over)
    finally:
        gc.unfreeze()


async def _longest_turn(work: Awaitable[object]) -> float:
    """Return the longest iteration of the loop until `work` is done, in milliseconds of CPU time.

    CPU time does not depend on other programs, and no iteration sleeps.
    """
    task = asyncio.ensure_future(work)
    longest, before = 0.0, time.thread_time()
    while not task.done():
        await asyncio.sleep(0)
        now = time.thread_time()
        longest, before = max(longest, now - before), now
    return longest * 1e3


# --- golang ----------------------------------------------------------------------------------


def _golang(options: argparse.Namespace) -> None:
    """Measure calls of `punctual.golang` and the same calls of pygolang 0.1."""
    packages = {_OURS: "punctual.golang", "pygolang": "golang"}
    if _peer("golang") is None:
        del packages["pygolang"]
    rows: list[tuple[str, Callable[[str], Measure]]] = [
        ("send and recv on a channel with a buffer", _buffered),
        ("a handover from thread to thread without a buffer, and back", _handover),
        ("select of two channels, one of them ready", _selected),
        ("go, and wait for its end on a channel", _gone),
        ("a call of a function with @func that defers one call", _deferred),
        ("lock and unlock of a Mutex", _locked),
        ("with_timeout and cancel", _timeout),
    ]
    for title, make in rows:
        _compare(
            title, "ns", {name: make(package) for name, package in packages.items()}, options.rounds
        )


def _repeated(act: Callable[[], object], count: int = 20_000) -> Measure:
    def measure() -> float:
        begin = time.perf_counter_ns()
        for _ in range(count):
            act()
        return _ns_each(begin, count)

    return measure


def _buffered(package: str) -> Measure:
    c = importlib.import_module(package).chan(1)

    def act() -> None:
        c.send(1)
        c.recv()

    return _repeated(act)


def _handover(package: str) -> Measure:
    golang = importlib.import_module(package)
    there, back = golang.chan(), golang.chan()

    def answer() -> None:
        while True:
            there.recv()
            back.send(1)

    def act() -> None:
        there.send(1)
        back.recv()

    golang.go(answer)
    return _repeated(act, 5_000)


def _selected(package: str) -> Measure:
    golang = importlib.import_module(package)
    ready, never = golang.chan(1), golang.chan()

    def act() -> None:
        ready.send(1)
        golang.select(ready.recv, never.recv)

    return _repeated(act)


def _gone(package: str) -> Measure:
    golang = importlib.import_module(package)
    done = golang.chan()

    def act() -> None:
        golang.go(done.send, 1)
        done.recv()

    return _repeated(act, 1_000)


def _deferred(package: str) -> Measure:
    golang = importlib.import_module(package)

    @golang.func  # type: ignore[untyped-decorator]
    def act() -> None:
        golang.defer(_nothing)

    return _repeated(act)


def _locked(package: str) -> Measure:
    mutex = importlib.import_module(f"{package}.sync").Mutex()

    def act() -> None:
        mutex.lock()
        mutex.unlock()

    return _repeated(act)


def _timeout(package: str) -> Measure:
    context = importlib.import_module(f"{package}.context")

    def act() -> None:
        _, cancel = context.with_timeout(context.background(), 10)
        cancel()

    return _repeated(act, 1_000)


# --- gevent ----------------------------------------------------------------------------------


def _gevent(options: argparse.Namespace) -> None:
    """Measure a wait of a greenlet: an item goes to another greenlet, and comes back."""
    gevent = _peer("gevent")
    if gevent is None:
        return
    channel = importlib.import_module("gevent.queue").Channel
    from punctual import chan

    def turns(there: tuple[Any, Any], back: tuple[Any, Any]) -> float:
        def answer() -> None:
            for _ in range(2_000):
                back[0](there[1]())

        answering = gevent.spawn(answer)
        begin = time.perf_counter_ns()
        for i in range(2_000):
            there[0](i)
            back[1]()
        each = _ns_each(begin, 2_000) / 1e3
        answering.join()
        return each

    def by_chan() -> float:
        there, back = chan[int](), chan[int]()
        return turns((there.send, there.recv), (back.send, back.recv))

    def by_gevent() -> float:
        there, back = channel(), channel()
        return turns((there.put, there.get), (back.put, back.get))

    contenders: dict[str, Measure] = {_OURS: by_chan, "gevent.queue.Channel": by_gevent}
    _compare("an item there and back, between greenlets", "us", contenders, options.rounds)


# --- server ----------------------------------------------------------------------------------


def _server(options: argparse.Namespace) -> None:
    """Measure the time that a test needs for its own server, and for a connection to it."""
    import redis
    from punctual_embedded import Server

    def start_and_stop() -> float:
        begin = time.perf_counter_ns()
        with Server():
            pass
        return (time.perf_counter_ns() - begin) / 1e3

    with Server() as server:

        def connect() -> float:
            begin = time.perf_counter_ns()
            with redis.Redis(port=server.port) as client:
                client.ping()
            return (time.perf_counter_ns() - begin) / 1e3

        contenders: dict[str, Measure] = {
            "start and stop": start_and_stop,
            "connect, PING": connect,
        }
        _compare("a server, and a client of redis-py", "us", contenders, 20 * options.rounds)
        client = server.client()
        client.call("SET", "key", "a value of 24 bytes ...")

        def calls(call: Callable[..., object], *words: str, count: int = 20_000) -> Measure:
            def act() -> float:
                begin = time.perf_counter_ns()
                for _ in range(count):
                    call(*words)
                return _ns_each(begin, count) / 1e3

            return act

        with redis.Redis(port=server.port) as over_socket:
            gets: dict[str, Measure] = {
                "Client.call": calls(client.call, "GET", "key"),
                "Server.call": calls(server.call, "GET", "key"),
                "a client for each call": calls(
                    lambda: server.client().call("GET", "key"), count=2_000
                ),
                "redis-py": calls(over_socket.get, "key", count=500),
            }
            bars: list[Bar] = [("Client.call", 1.2, None)]
            _compare("a GET", "us", gets, options.rounds, bars)
    server = Server()
    server.command("nothing", flags=["readonly"])(lambda _: None)
    server.command("get-it", keys=1, flags=["readonly"])(lambda inv, key: inv.call("GET", key))
    with server:
        own: dict[str, Measure] = {
            "that calls nothing": calls(server.call, "NOTHING", count=2_000),
            "that calls GET": calls(server.call, "GET-IT", "key", count=2_000),
            "a script that calls GET": calls(
                server.call, "EVAL", "return redis.call('get', KEYS[1])", "1", "key", count=2_000
            ),
        }
        _compare("an own command by a function", "us", own, options.rounds)
