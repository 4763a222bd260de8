"""punctual.time end to end, on the system's clock. Only these tests sleep.

Upper bounds are wide, because test machines are busy; `make bench-python ARGS=time` measures.
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
from conftest import Go, until, until_receivers_wait
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
    assert dt <= elapsed(lambda: sleep(dt)) < 5
    assert dt <= elapsed(lambda: after(dt).recv()) < 5
    assert dt <= elapsed(lambda: tick(dt).recv()) < 5
    called = threading.Event()
    assert dt <= elapsed(lambda: (after_func(dt, called.set), called.wait(30))) < 5


def test_the_sent_time_is_that_of_firing() -> None:
    begin = now()
    timer = Timer(0.02)
    sleep(0.05)
    fired = timer.c.recv()
    assert begin + 0.02 <= fired <= now()


def test_timer_without_a_waiting_thread() -> None:
    """The driver does not have the timer, which must not be observable."""
    begin = now()
    fired, stopped, armed, never = Timer(0.01), Timer(0.01), Timer(100), Timer(float("inf"))
    with pytest.raises(PanicError, match="the timer is armed"):
        fired.reset(5)
    assert repr(fired) == repr(armed) == "<Timer: armed>"
    sleep(0.03)
    assert repr(fired) == "<Timer: stopped or expired>"
    assert len(fired.c) == 1
    late = fired.c.recv() - begin - 0.01
    assert 0 <= late < 0.01, "the time is the deadline"
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
    # A reset serves the threads that already wait.
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
    timers = [Timer(0.03), Timer(0.03), Timer(1000)]
    kept = timers[0].c
    for timer in timers:
        assert select(timer.c.recv, after(0.001).recv)[0] == 1
        assert len(timer.c) == 0
    assert timers[2].stop() is True
    timers[2].reset(0.001)
    del timers[1]
    sleep(0.05)
    assert (len(kept), len(timers[1].c)) == (1, 1)
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
    ticker = Ticker(0.01)
    begin = now()
    times = [ticker.c.recv() for _ in range(20)]
    ticker.stop()
    assert times == sorted(times)
    # Most ticks follow a multiple of the period closely; late or skipped ones shift no others.
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


def test_ctrl_c_takes_effect_at_once() -> None:
    """Within milliseconds without polling: the signal itself ends the sleep of the thread."""
    delays = []
    for _ in range(5):
        sent: list[float] = []

        def send(sent: list[float] = sent) -> None:
            sent.append(stdtime.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        # Later than the first polls, so that the next one would follow a second later.
        after_func(0.15, send)
        with pytest.raises(KeyboardInterrupt):
            chan().recv()
        delays.append(stdtime.monotonic() - sent[0])
    assert min(delays) < 0.05


def test_handlers_run_during_a_wait_which_continues() -> None:
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


def test_interrupted_operation_has_no_effect() -> None:
    c: chan[Any] = chan()
    for case in (lambda: c.send(1), c.recv, lambda: select(c.recv, (c.send, 2))):
        after_func(0.01, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            case()
    threading.Thread(target=lambda: c.send("later")).start()
    assert c.recv() == "later"
    threading.Thread(target=lambda: c.send(c.recv())).start()
    c.send("there and back")
    assert c.recv() == "there and back"
