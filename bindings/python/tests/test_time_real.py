"""punctual.time end to end, on the system's clock: the one file of these tests that sleeps.

Bounds are wide upwards, since machines that test are busy; `python -m punctual bench time`
measures.
"""

from __future__ import annotations

import os
import signal
import threading
import time as stdtime
from collections.abc import Callable
from typing import Any

import pytest
from punctual import PanicError, chan, nilchan, select
from punctual.time import Ticker, Timer, after, after_func, now, sleep, tick


def elapsed(function: Callable[[], object]) -> float:
    begin = stdtime.monotonic()
    function()
    return stdtime.monotonic() - begin


def test_now_is_the_time_of_day() -> None:
    before = stdtime.time()
    middle = now()
    assert before <= middle <= stdtime.time()


@pytest.mark.parametrize("dt", [0.001, 0.0301])
def test_nothing_is_early(dt: float) -> None:
    assert dt <= elapsed(lambda: sleep(dt)) < 5
    assert dt <= elapsed(lambda: after(dt).recv()) < 5
    assert dt <= elapsed(lambda: tick(dt).recv()) < 5
    called = threading.Event()
    assert dt <= elapsed(lambda: (after_func(dt, called.set), called.wait(30))) < 5


def test_what_is_sent_is_the_time_of_firing() -> None:
    begin = now()
    timer = Timer(0.02)
    sleep(0.05)
    fired = timer.c.recv()
    assert begin + 0.02 <= fired <= now()


def test_timer_whose_channel_nobody_has_seen() -> None:
    """The driver does not know of it: it must not be seen to be different."""
    begin = now()
    fired, stopped, armed, never = Timer(0.01), Timer(0.01), Timer(100), Timer(float("inf"))
    with pytest.raises(PanicError, match="the timer is armed"):
        fired.reset(5)
    assert repr(fired) == repr(armed) == "<Timer: armed>"
    sleep(0.03)
    assert repr(fired) == "<Timer: stopped or expired>"
    assert len(fired.c) == 1
    late = fired.c.recv() - begin - 0.01
    assert 0 <= late < 0.01, "it is the time it was due at"
    assert stopped.stop() is False
    assert len(stopped.c) == 0
    stopped.reset(0.01)
    assert stopped.c.recv() >= begin + 0.04
    assert (armed.stop(), armed.stop(), never.stop()) == (True, False, True)
    armed.reset(0.001)
    sleep(0.002)
    armed.reset(0.001)
    assert armed.c.recv() >= begin + 0.034
    past = Timer(0)
    assert len(past.c) == 1


def test_ticker_keeps_to_its_times() -> None:
    ticker = Ticker(0.01)
    begin = now()
    times = [ticker.c.recv() for _ in range(20)]
    ticker.stop()
    assert times == sorted(times)
    # Most come soon after a multiple of the period; others are late or skipped, and move none.
    late = sorted((t - begin) % 0.01 for t in times)
    assert late[len(late) // 2] < 0.005


def test_slow_receiver_gets_one_tick() -> None:
    ticker = Ticker(0.005)
    sleep(0.05)
    assert len(ticker.c) == 1


def test_waits_release_the_interpreter() -> None:
    counted = 0
    over = threading.Event()

    def count() -> None:
        nonlocal counted
        while not over.is_set():
            counted += 1

    waits: list[Callable[[], object]] = [
        lambda: sleep(0.02),
        lambda: after(0.02).recv(),
        lambda: select(nilchan.recv, after(0.02).recv),
    ]
    thread = threading.Thread(target=count)
    thread.start()
    try:
        for wait in waits:
            before = counted
            wait()
            assert counted > before
    finally:
        over.set()
        thread.join()


WAITS: dict[str, Callable[[], object]] = {
    "recv": lambda: chan().recv(),
    "send": lambda: chan[int]().send(1),
    "nil": nilchan.recv,
    "select": lambda: select(chan().recv, nilchan.recv),
    "no case": select,
    "iteration": lambda: next(iter(chan())),
    "sleep": lambda: sleep(100),
    "timer": lambda: after(100).recv(),
}


@pytest.mark.parametrize("name", WAITS)
def test_ctrl_c_ends_a_wait(name: str) -> None:
    after_func(0.02, lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        WAITS[name]()


def test_ctrl_c_is_heard_at_once() -> None:
    """Within milliseconds, though nothing polls: the signal itself ends the sleep of the thread."""
    delays = []
    for _ in range(5):
        sent: list[float] = []

        def send(sent: list[float] = sent) -> None:
            sent.append(stdtime.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        # Later than the first looks, so that the next one would come after another second.
        after_func(0.15, send)
        with pytest.raises(KeyboardInterrupt):
            chan().recv()
        delays.append(stdtime.monotonic() - sent[0])
    assert min(delays) < 0.05


def test_handlers_run_during_a_wait_and_it_goes_on() -> None:
    handled: list[float] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: handled.append(stdtime.monotonic()))
    try:
        begin = stdtime.monotonic()
        after_func(0.02, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        after(0.06).recv()
        assert stdtime.monotonic() - begin >= 0.06
        assert len(handled) == 1
        after_func(0.02, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        assert elapsed(lambda: sleep(0.06)) >= 0.06
        assert len(handled) == 2
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_signal_that_another_thread_caught_is_found() -> None:
    def in_this_thread() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    after_func(0.02, in_this_thread)
    with pytest.raises(KeyboardInterrupt):
        chan().recv()


def test_interrupted_operation_has_done_nothing() -> None:
    c: chan[Any] = chan()
    for case in (lambda: c.send(1), c.recv, lambda: select(c.recv, (c.send, 2))):
        after_func(0.01, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            case()
    threading.Thread(target=lambda: c.send("later")).start()
    assert c.recv() == "later"
    threading.Thread(target=lambda: c.send(c.recv())).start()
    c.send("to and fro")
    assert c.recv() == "to and fro"
