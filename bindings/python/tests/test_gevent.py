"""Greenlets of gevent: a wait lets the other greenlets of the thread run."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from patience import PATIENCE, ends_silently
from punctual import chan, default, nilchan, select
from punctual._punctual import _waiting
from punctual.golang import go, sync
from punctual.time import Timer, VirtualTime, after, after_func, sleep

gevent: Any = pytest.importorskip("gevent")


@pytest.fixture(scope="module", autouse=True)
def no_hub_is_left() -> Iterator[None]:
    """Ends this thread's hub, in which otherwise all later tests would wait."""
    yield
    gevent.get_hub().destroy()


def run(*functions: Any) -> None:
    """Runs functions in greenlets of this thread until all have ended."""
    with gevent.Timeout(PATIENCE):
        gevent.joinall([gevent.spawn(f) for f in functions], raise_error=True)


def test_channels_between_greenlets() -> None:
    there: chan[int] = chan()
    back: chan[int] = chan()

    def ask() -> None:
        for i in range(100):
            there.send(i)
            assert back.recv() == i + 1
        there.close()

    def answer() -> None:
        for i in there:
            back.send(i + 1)

    run(ask, answer)


def test_select_yields() -> None:
    a: chan[str] = chan()
    b: chan[str] = chan()
    got: list[Any] = []

    def choose() -> None:
        got.append(select(a.recv, b.recv, nilchan.recv))

    run(choose, lambda: b.send("b"))
    assert got == [(1, "b")]
    assert _waiting(a) == _waiting(b) == (0, 0)


def test_sleeps_of_greenlets_overlap() -> None:
    order: list[int] = []

    def nap(number: int) -> None:
        sleep(number * 0.01)
        order.append(number)

    run(*(lambda i=i: nap(i) for i in (3, 1, 2)))
    assert order == [1, 2, 3]


def test_timers_wake_greenlets() -> None:
    called: chan[float] = chan(1)
    after_func(0.001, lambda: called.send(1.0))
    got: list[float] = []
    run(*[lambda c=c: got.append(c.recv()) for c in (Timer(0.001).c, after(0.001), called)])
    assert len(got) == 3


def test_virtual_time_wakes_greenlets() -> None:
    with VirtualTime() as clock:
        woken: list[float] = []

        def nap() -> None:
            sleep(3600)
            woken.append(clock.now())

        def advance() -> None:
            while clock.armed == 0:
                gevent.sleep(0)
            clock.advance(3600)

        run(nap, advance)
        assert woken == [3600.0]


def test_threads_wake_greenlets() -> None:
    c: chan[int] = chan()
    threading.Thread(target=lambda: c.send(5)).start()
    got: list[int] = []
    run(lambda: got.append(c.recv()))
    assert got == [5]


def test_a_timeout_ends_the_wait_without_effect() -> None:
    c: chan[int] = chan()

    def wait() -> None:
        with pytest.raises(gevent.Timeout), gevent.Timeout(0.001):
            c.recv()
        with pytest.raises(gevent.Timeout), gevent.Timeout(0.001):
            c.send(1)

    run(wait)
    assert _waiting(c) == (0, 0)
    assert select(c.recv, default) == (1, None)


def test_a_killed_greenlet_leaves_the_queue() -> None:
    c: chan[int] = chan()
    waiting = gevent.spawn(c.recv)
    gevent.sleep(0)
    assert _waiting(c) == (1, 0)
    waiting.kill()
    assert _waiting(c) == (0, 0)


def test_locks_between_greenlets() -> None:
    mutex, group = sync.RWMutex(), sync.WaitGroup()
    inside = 0

    def work() -> None:
        nonlocal inside
        with mutex:
            inside += 1
            sleep(0.001)
            assert inside == 1
            inside -= 1
        group.done()

    group.add(5)
    run(group.wait, *[work] * 5)


def test_a_waiter_that_is_killed_lets_others_in() -> None:
    mutex = sync.RWMutex()
    mutex.RLock()
    writer = gevent.spawn(mutex.Lock)
    gevent.sleep(0)
    reader = gevent.spawn(mutex.RLock)
    gevent.sleep(0)
    assert not reader.dead
    writer.kill()
    run(reader.join)
    mutex.RUnlock()
    mutex.RUnlock()
    mutex.Lock()


def test_go_starts_a_greenlet() -> None:
    c: chan[int] = chan()

    def main() -> None:
        go(lambda: c.send(threading.get_ident()))
        assert c.recv() == threading.get_ident()

    run(main)


def test_after_monkey_patching() -> None:
    program = """
from gevent import monkey
monkey.patch_all()
import gevent
from punctual import chan
from punctual.golang import context, go, sync
from punctual.time import sleep
c = chan()
def send():
    for i in range(3):
        sleep(0.001)
        c.send(i)
go(send)
assert [c.recv() for _ in range(3)] == [0, 1, 2]
ctx, cancel = context.with_timeout(context.background(), 0.001)
ctx.done().recv()
assert ctx.err() is context.deadlineExceeded
with sync.WorkGroup(context.background()) as group:
    group.go(lambda ctx: sleep(0.001))
    group.go(lambda ctx: gevent.sleep(0.001))
"""
    ends_silently(program, timeout=60)


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux's list of files")
def test_waits_use_their_sockets_again() -> None:
    there: chan[int] = chan()
    back: chan[int] = chan()
    sockets: list[set[str]] = []

    def ask() -> None:
        for i in range(30):
            with pytest.raises(gevent.Timeout), gevent.Timeout(0.001):
                back.recv()
            there.send(i)
            assert back.recv() == i
            names = [os.path.realpath(file) for file in Path("/proc/self/fd").iterdir()]
            sockets.append({name for name in names if "socket:" in name})
        there.close()

    def answer() -> None:
        for i in there:
            back.send(i)

    run(ask, answer)
    # A new socket would have another number.
    assert sockets[9]
    assert sockets[9] == sockets[-1]
