"""Forks: in the child the parent's timers are disarmed and new ones work."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from conftest import Go, until_receivers_wait
from patience import until
from punctual import chan, default, select
from punctual.time import Ticker, Timer, VirtualTime, after, after_func, now, sleep

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


@pytest.fixture(autouse=True)
def _ignore_fork_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        # From 3.12 on Python warns about forks with threads, which these tests need.
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def in_child(function: Callable[[], object]) -> None:
    """Runs a function in a child process, and checks that it neither fails nor hangs."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            signal.alarm(30)
            function()
            code = 0
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)
    # The alarm of the child does not help if the child hangs within `fork`.
    watch = threading.Timer(60, os.kill, (pid, signal.SIGKILL))
    watch.start()
    status = os.waitpid(pid, 0)[1]
    watch.cancel()
    assert status == 0


def timers_work() -> None:
    begin = now()
    assert after(0.005).recv() >= begin + 0.005
    done: chan[int] = chan()
    after_func(0.001, lambda: done.send(1))
    assert done.recv() == 1
    ticker = Ticker(0.001)
    assert ticker.c.recv() < ticker.c.recv()
    ticker.stop()
    timer = Timer(100)
    assert timer.stop()
    sleep(0.001)


def test_new_timers_work_in_the_child() -> None:
    in_child(timers_work)
    timers_work()
    in_child(timers_work)
    in_child(lambda: in_child(timers_work))


def test_timers_of_the_parent_are_disarmed() -> None:
    calls: list[int] = []
    timer, ticker, fired = Timer(100), Ticker(100), Timer(0)
    until(lambda: len(fired.c) == 1)
    caller = Timer(100, lambda: calls.append(1))
    begin = now()
    soon = Timer(0.3), Timer(0.3, lambda: calls.append(2))

    def child() -> None:
        # A busy machine may fork so late that the timers have fired before.
        fired_before = now() >= begin + 0.3
        assert repr(timer) == "<Timer: stopped or expired>"
        sleep(0.4)
        assert fired_before or (len(soon[0].c), calls) == (0, [])
        calls.clear()
        assert timer.stop() is False
        assert caller.stop() is False
        ticker.stop()
        assert fired.c.recv() > 0
        # The parent's timers can be armed again in the child.
        timer.reset(0.001)
        timer.c.recv()
        caller.reset(0.001)
        until(lambda: calls == [1])

    in_child(child)
    # The parent's timers are unaffected.
    assert timer.stop() is True
    assert caller.stop() is True
    soon[0].c.recv()
    until(lambda: calls == [2])


def test_timer_that_fell_due_before_the_fork() -> None:
    """The timer is due although nothing had read its channel."""
    made = now()
    past, unseen = Timer(0.001), after(0.001)
    sleep(0.002)

    def child() -> None:
        begin = now()
        assert made + 0.001 <= past.c.recv() < begin
        assert len(unseen) == 1
        assert past.stop() is False
        timers_work()

    for _ in range(2):
        in_child(child)
        # The child of a child that did not use its timers.
        in_child(lambda: in_child(child))
    assert past.c.recv() > 0


def test_timer_that_fell_due_after_the_fork() -> None:
    """It stays disarmed, even if the child has forked since and used no timer before."""
    begin = now()
    timer = Timer(0.3)

    def child() -> None:
        # A busy machine may fork so late that the timer has fired before.
        fired_before = now() >= begin + 0.3
        time.sleep(0.4)
        in_child(lambda: None)
        assert fired_before or len(timer.c) == 0

    in_child(child)


def test_fork_while_timers_fire(go: Go) -> None:
    """Locks that other threads hold during the fork do no harm."""
    over = threading.Event()
    c: chan[Any] = chan(1)

    def arm() -> None:
        while not over.is_set():
            after_func(1e-5, lambda: select((c.send, 1), default))
            Timer(1e-5)
            select(c.recv, after(2e-5).recv)

    tickers = [Ticker(2e-5) for _ in range(10)]
    channels = [ticker.c for ticker in tickers]
    for _ in range(3):
        go(arm)
    for _ in range(30):

        def child() -> None:
            for channel in channels:
                select(channel.recv, default)
            for ticker in tickers:
                ticker.stop()
            select((c.send, 1), default)
            select(c.recv, default)
            timers_work()

        in_child(child)
    over.set()


def test_fork_while_workers_attach(go: Go) -> None:
    """Before Python 3.12 a child hangs if other threads create their states during the fork."""
    over = threading.Event()

    def arm() -> None:
        while not over.is_set():
            for _ in range(3):
                after_func(1e-6, lambda: None)
            time.sleep(2e-5)

    for _ in range(2):
        go(arm)
    try:
        for _ in range(500):
            in_child(lambda: None)
    finally:
        over.set()


def test_the_child_has_no_waiters(go: Go) -> None:
    c: chan[int] = chan()
    got: chan[int] = chan(1)
    go(lambda: got.send(c.recv()))
    until_receivers_wait(c)

    def child() -> None:
        assert select((c.send, 5), default) == (1, None), "no receiver waits"
        threading.Thread(target=lambda: c.send(6), daemon=True).start()
        assert c.recv() == 6

    in_child(child)
    c.send(7)
    assert got.recv() == 7


def test_virtual_clock_works_in_the_child() -> None:
    with VirtualTime() as clock:
        timer = Timer(5)
        calls: list[float] = []
        after_func(6, lambda: calls.append(now()))

        def child() -> None:
            clock.advance(6)
            assert (timer.c.recv(), calls) == (5.0, [6.0])

        in_child(child)
        assert (now(), timer.stop()) == (0.0, True)


def test_fork_by_a_function_of_a_timer() -> None:
    pids: chan[int] = chan()

    def fork() -> None:
        pid = os.fork()
        if pid == 0:
            signal.alarm(30)
            timers_work()
            os._exit(7)
        pids.send(pid)

    after_func(0, fork)
    assert os.WEXITSTATUS(os.waitpid(pids.recv(), 0)[1]) == 7


def work(n: int) -> int:
    """Runs in a process of multiprocessing."""
    timers_work()
    return n * n


def test_multiprocessing() -> None:
    armed = [Timer(100) for _ in range(10)]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(work, range(8)) == [n * n for n in range(8)]
    assert all(timer.stop() for timer in armed)


def test_child_ends_by_itself() -> None:
    """The child ends its interpreter while functions run, without `os._exit`."""
    pid = os.fork()
    if pid == 0:
        try:
            signal.alarm(30)
            after_func(0, lambda: sleep(60))
            timers_work()
        finally:
            # pytest's own end would run in the child as well.
            os.execv(sys.executable, [sys.executable, "-c", ""])
    assert os.waitpid(pid, 0)[1] == 0
