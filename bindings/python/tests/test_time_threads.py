"""Timers on the system's clock, used by several threads: each fires or is stopped, never both."""

from __future__ import annotations

import sys
import threading
import time as stdtime
from collections import Counter
from typing import Any

import pytest
from conftest import Go
from patience import until
from punctual import PanicError, chan, select
from punctual.time import Ticker, Timer, after, after_func


def spin(seconds: float) -> None:
    end = stdtime.perf_counter() + seconds
    while stdtime.perf_counter() < end:
        pass


def test_after_stop_the_channel_is_empty() -> None:
    stopped = 0
    for i in range(3000):
        timer = Timer(i % 50 * 2e-6)
        channel = timer.c
        spin(i % 37 * 2e-6)
        stopped += timer.stop()
        assert len(channel) == 0
        assert timer.stop() is False
        # Every send has completed, so no time arrives later.
        timer.reset(1000)
        assert len(channel) == 0
    assert 0 < stopped < 3000


def test_every_receiver_gets_its_time(go: Go) -> None:
    """The deadline passes before, while and after a thread starts to wait."""

    def receive() -> None:
        timer = Timer(0)
        timer.stop()
        channel = timer.c
        for i in range(1500):
            timer.reset(i % 50 * 2e-6)
            spin(i % 37 * 2e-6)
            assert (channel.recv() if i % 3 else select(never.recv, channel.recv)[1]) > 0
            assert timer.stop() is False

    never: chan[float] = chan()
    for _ in range(3):
        go(receive)


def test_resets_reach_waiting_receivers(go: Go) -> None:
    """One thread resets whenever possible, others receive once per reset."""
    timer = Timer(0)
    channel = timer.c
    got: chan[float] = chan(1000)

    def receive() -> None:
        for _ in range(300):
            got.send(channel.recv())

    for _ in range(3):
        go(receive)
    for i in range(900):
        got.recv()
        if i < 899:
            timer.reset(i % 20 * 2e-6)
    assert len(got) == 0


def test_ticker_is_empty_after_stop() -> None:
    for i in range(1000):
        ticker = Ticker(5e-6)
        spin(i % 20 * 2e-6)
        ticker.stop()
        assert len(ticker.c) == 0
        spin(5e-6)
        assert len(ticker.c) == 0


def test_function_is_called_or_stopped() -> None:
    calls: Counter[int] = Counter()
    stopped = set()
    for i in range(2000):
        timer = after_func(i % 50 * 2e-6, lambda i=i: calls.update([i]))  # type: ignore[misc]
        spin(i % 37 * 2e-6)
        if timer.stop():
            stopped.add(i)
    until(lambda: len(calls) + len(stopped) == 2000)
    assert not stopped & set(calls)
    assert set(calls.values()) == {1}


def test_exactly_one_stop_succeeds(go: Go) -> None:
    timers = [Timer(1000) for _ in range(1000)]
    channels = [timer.c for timer in timers[::2]]
    wins: list[int] = []

    def stop() -> None:
        wins.append(sum(timer.stop() for timer in timers))

    threads = [go(stop) for _ in range(4)]
    for thread in threads:
        thread.join()
    assert sum(wins) == len(timers) == 2 * len(channels)


def test_exactly_one_reset_succeeds(go: Go) -> None:
    timer = Timer(1000)
    timer.stop()
    results: Counter[str] = Counter()

    def reset_once() -> None:
        try:
            timer.reset(1000)
        except PanicError:
            results["refused"] += 1
        else:
            results["armed"] += 1
            assert timer.stop()

    def reset() -> None:
        for _ in range(300):
            reset_once()

    threads = [go(reset) for _ in range(4)]
    for thread in threads:
        thread.join()
    assert results["armed"] >= 300
    assert timer.stop() is False


def test_every_function_is_called_from_many_threads(go: Go) -> None:
    calls: chan[int] = chan(10_000)

    def arm(first: int) -> None:
        for i in range(first, first + 1000):
            after_func(i % 10 * 1e-4, lambda i=i: calls.send(i))  # type: ignore[misc]

    for thread in [go(lambda i=i: arm(i * 1000)) for i in range(4)]:
        thread.join()
    assert Counter(calls.recv() for _ in range(4000)) == Counter(range(4000))


def test_blocked_functions_delay_no_others() -> None:
    """Each function returns only after all have started, so each must start soon."""
    many = 800
    barrier = threading.Barrier(many)
    done: chan[int] = chan(many)

    def meet() -> None:
        done.send(barrier.wait(120))

    for _ in range(many):
        after_func(0.001, meet)
    assert sorted(done.recv() for _ in range(many)) == list(range(many))


def test_functions_run_outside_the_main_thread() -> None:
    where: chan[threading.Thread] = chan()
    after_func(0, lambda: where.send(threading.current_thread()))
    assert where.recv() is not threading.main_thread()


def test_many_threads_use_the_channel_while_the_timer_fires(go: Go) -> None:
    got: chan[Any] = chan(100)

    def receive() -> None:
        for _ in range(50):
            which, value = select(after(1e-4).recv_, after(2e-4).recv_)
            got.send((which, value[1]))

    threads = [go(receive) for _ in range(4)]
    seen = Counter(got.recv() for _ in range(200))
    for thread in threads:
        thread.join()
    assert set(seen) <= {(0, True), (1, True)}


def test_exceptions_of_a_function_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    errors: chan[Any] = chan(10)
    monkeypatch.setattr(threading, "excepthook", lambda args: errors.send(args.exc_type))
    after_func(0, lambda: [][0])
    assert errors.recv() is IndexError
    # The worker continues.
    after_func(0, lambda: 1 // 0)
    assert errors.recv() is ZeroDivisionError
    after_func(0, sys.exit)
    assert errors.recv() is SystemExit


def test_timers_are_created_and_freed_while_they_fire(go: Go) -> None:
    """Objects are freed in every state, by several threads, with the collector running."""

    def churn() -> None:
        kept: list[Any] = []
        for i in range(3000):
            kept.append((Timer, Ticker, after)[i % 3](1e-5 + i % 7 * 1e-5))
            if i % 5 == 0:
                kept[-1] = getattr(kept[-1], "c", kept[-1])
            if len(kept) > 50:
                del kept[i % 50]
                kept.append([kept[-1], kept])
                kept = kept[-40:] if i % 200 == 0 else kept

    for thread in [go(churn) for _ in range(3)]:
        thread.join()
