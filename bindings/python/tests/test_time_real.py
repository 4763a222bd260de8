"""punctual.time end to end, on the system's clock. These tests sleep.

A busy machine may be late, so the tests check that no timer is early, and wait for late ones.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time as stdtime
from collections.abc import Callable
from typing import Any

import pytest
from conftest import Go, until_receivers_wait
from patience import PATIENCE, until
from punctual import PanicError, chan, default, nilchan, select
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
    assert dt <= elapsed(lambda: sleep(dt))
    assert dt <= elapsed(lambda: after(dt).recv())
    assert dt <= elapsed(lambda: tick(dt).recv())
    called = threading.Event()
    assert dt <= elapsed(lambda: (after_func(dt, called.set), called.wait(PATIENCE)))
    assert called.is_set()


def test_the_sent_time_is_that_of_firing() -> None:
    begin = now()
    timer = Timer(0.02)
    sleep(0.05)
    fired = timer.c.recv()
    assert begin + 0.02 <= fired <= now()


def test_timer_without_a_waiting_thread() -> None:
    """Such a timer is not armed in the driver, but behaves as if it were."""
    begin = now()
    fired, stopped = Timer(0.01), Timer(0.01)
    made = now()
    armed, never = Timer(1000), Timer(float("inf"))
    with pytest.raises(PanicError, match="the timer is armed"):
        armed.reset(5)
    assert repr(armed) == "<Timer: armed>"
    sleep(0.03)
    assert repr(fired) == "<Timer: stopped or expired>"
    assert len(fired.c) == 1
    assert begin + 0.01 <= fired.c.recv() < made + 0.011, "the time is the deadline"
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


def close_and_receive(c: chan[float]) -> bool:
    c.close()
    return c.recv_()[1]


LOOKS: dict[str, Callable[[chan[float]], object]] = {
    "recv": lambda c: c.recv() > 0,
    "recv_": lambda c: c.recv_()[1],
    "iteration": lambda c: next(iter(c)) > 0,
    "select": lambda c: select(nilchan.recv, c.recv)[0] == 1,
    "select with default": lambda c: select(c.recv_, default)[1][1],
    "send": lambda c: select((c.send, 0.0), default)[0] == 1 and c.recv() > 0,
    "close": close_and_receive,
    "len": lambda c: len(c) == 1 and len(c) == 1,
    "repr": lambda c: repr(c) == "<chan of C.double: 1 of 1 buffered>",
}


@pytest.mark.parametrize("name", LOOKS)
def test_every_use_of_the_channel_finds_the_time(name: str) -> None:
    timer, lonely = Timer(0.001), after(0.001)
    sleep(0.002)
    assert LOOKS[name](timer.c)
    assert timer.stop() is False
    assert len(timer.c) == 0
    assert LOOKS[name](lonely)


def test_timer_starts_no_thread_until_a_thread_waits() -> None:
    program = """
import os
from punctual import default, select
from punctual.time import Timer, after, sleep

def threads():
    return len(os.listdir("/proc/self/task"))

timers = [Timer(i) for i in range(2)]
for timer in timers:
    select(timer.c.recv, after(1).recv, default)
    len(timer.c), repr(timer.c), repr(timer)
    timer.stop(), timer.reset(1)
assert threads() == 1
select(timers[1].c.recv, after(0.001).recv)
assert threads() == 2
"""
    if not os.path.isdir("/proc/self/task"):
        pytest.skip("threads cannot be counted here")
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)


def test_several_threads_wait_for_one_timer(go: Go) -> None:
    timer = Timer(1000)
    channel = timer.c
    got: chan[float] = chan(10)
    for _ in range(3):
        go(lambda: got.send(timer.c.recv()))
    until_receivers_wait(channel, 3)
    assert timer.stop() is True
    # A reset arms the timer for the threads that already wait.
    for left in (2, 1, 0):
        timer.reset(0.001)
        got.recv()
        until_receivers_wait(channel, left)
        assert timer.stop() is False
    timer.reset(1000)
    del channel
    assert timer.stop() is True


def test_waiting_thread_needs_no_timer(go: Go) -> None:
    got: chan[float] = chan(1)
    waiting: list[chan[float]] = []

    def wait() -> None:
        channel = Timer(0.05).c
        waiting.append(channel)
        got.send(channel.recv())

    go(wait)
    until(lambda: waiting)
    waiting.clear()
    gc.collect()
    got.recv()


def test_timer_of_a_select_that_chose_another_case() -> None:
    """The timer stays armed when another case of the select is ready first."""

    def waited_for(seconds: float) -> Timer:
        # On a busy machine both timers may fall due; then the next round waits longer.
        while seconds < PATIENCE:
            timer = Timer(seconds)
            if select(timer.c.recv, after(0.001).recv)[0] == 1 and len(timer.c) == 0:
                return timer
            seconds *= 2
        raise AssertionError("the timer is always the first")

    timers = [waited_for(0.03), waited_for(0.03), waited_for(1)]
    kept = timers[0].c
    timers[2].stop()
    timers[2].reset(0.001)
    del timers[1]
    until(lambda: (len(kept), len(timers[1].c)) == (1, 1))
    assert timers[0].stop() is False


def test_reset_by_a_handler_during_the_wait() -> None:
    timer = Timer(1000)

    def shorten(*_: object) -> None:
        assert timer.stop() is True
        timer.reset(0.001)

    before = signal.signal(signal.SIGUSR1, shorten)
    try:
        after_func(0.01, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        assert timer.c.recv() > 0
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_ticker_does_not_drift() -> None:
    # The ticker starts between the two readings of the clock.
    begin = now()
    ticker = Ticker(0.01)
    start = now() - begin
    times = [ticker.c.recv() for _ in range(20)]
    assert times == sorted(times)
    assert all(t > begin + 0.01 * n - 0.001 for n, t in enumerate(times, 1)), "none is early"
    # Late or skipped ticks do not shift later ones, so some later tick is on time.
    until(lambda: (ticker.c.recv() - begin) % 0.01 < start + 0.005)
    ticker.stop()


def test_slow_receiver_gets_one_tick() -> None:
    ticker = Ticker(0.005)
    sleep(0.05)
    assert len(ticker.c) == 1


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


def wait_signalled(wait: Callable[[], object], dt: float, send: Callable[[], object]) -> None:
    """Waits; a signal is sent after `dt` seconds, which may precede the wait on a busy machine."""
    after_func(dt, send)
    wait()


@pytest.mark.parametrize("name", WAITS)
def test_ctrl_c_ends_a_wait(name: str) -> None:
    """The wait releases the GIL: otherwise the function that sends the signal could not run."""
    with pytest.raises(KeyboardInterrupt):
        wait_signalled(WAITS[name], 0.02, lambda: os.kill(os.getpid(), signal.SIGINT))


def test_ctrl_c_takes_effect_at_once() -> None:
    """The signal itself ends the sleep of the thread, which does not wait for its next poll."""

    def delay() -> float:
        sent: list[float] = []

        def send() -> None:
            sent.append(stdtime.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        with pytest.raises(KeyboardInterrupt):
            # The first two polls are over by then; the next poll follows a second later.
            wait_signalled(chan().recv, 0.15, send)
        return stdtime.monotonic() - sent[0]

    # A busy machine delays some of the signals.
    until(lambda: delay() < 0.05)


SIGNALLED: dict[str, Callable[[float], object]] = {
    "receive": lambda dt: after(dt).recv(),
    "sleep": sleep,
}


@pytest.mark.parametrize("name", SIGNALLED)
def test_handlers_run_during_a_wait_which_continues(name: str) -> None:
    handled: list[float] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: handled.append(stdtime.monotonic()))

    def is_handled_within(dt: float) -> bool:
        handled.clear()
        after_func(dt / 3, lambda: os.kill(os.getpid(), signal.SIGUSR1))
        begin = stdtime.monotonic()
        SIGNALLED[name](dt)
        assert stdtime.monotonic() - begin >= dt
        until(lambda: handled)
        return handled[0] - begin < dt

    try:
        # A busy machine may send the signal too late for a short wait.
        assert any(is_handled_within(0.06 * 2**n) for n in range(8))
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_signal_that_another_thread_caught_is_found() -> None:
    def in_this_thread() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        wait_signalled(chan().recv, 0.02, in_this_thread)


def test_interrupted_operation_has_no_effect() -> None:
    c: chan[Any] = chan()
    for case in (lambda: c.send(1), c.recv, lambda: select(c.recv, (c.send, 2))):
        with pytest.raises(KeyboardInterrupt):
            wait_signalled(case, 0.01, lambda: os.kill(os.getpid(), signal.SIGINT))
    threading.Thread(target=lambda: c.send("later")).start()
    assert c.recv() == "later"
    threading.Thread(target=lambda: c.send(c.recv())).start()
    c.send("there and back")
    assert c.recv() == "there and back"
