"""punctual.time on the virtual clock: the guarantees of Go's package time and pygolang."""

from __future__ import annotations

import gc
import math
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import Go
from patience import until
from punctual import PanicError, chan, default, nilchan, select, time
from punctual.time import Ticker, Timer, VirtualTime, after, after_func, millisecond, now, tick


@pytest.fixture
def clock() -> Iterator[VirtualTime]:
    with VirtualTime() as clock:
        yield clock


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[threading.ExceptHookArgs]:
    """Collects the arguments of `threading.excepthook`."""
    errors: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", errors.append)
    return errors


def received(c: chan[float]) -> float | None:
    """Returns the item in the channel, or None."""
    return select(c.recv, default)[1]  # type: ignore[no-any-return]


def test_units() -> None:
    assert time.second == 1.0
    assert time.nanosecond * 1e9 == time.microsecond * 1e6 == time.millisecond * 1e3 == 1.0
    assert (time.minute, time.hour) == (60.0, 3600.0)


def test_timer_sends_the_time_once(clock: VirtualTime) -> None:
    timer = Timer(3)
    clock.advance(2.9)
    assert len(timer.c) == 0
    clock.advance(0.1)
    assert len(timer.c) == 1
    assert timer.c.recv_() == (3.0, True)
    clock.advance(100)
    assert len(timer.c) == 0


def test_time_is_a_float_of_seconds() -> None:
    with VirtualTime(1_000.5) as clock:
        timer = Timer(1)
        clock.advance(1)
        assert repr(timer.c.recv()) == repr(now()) == "1001.5"


def test_time_is_sent_before_the_channel_is_requested(clock: VirtualTime) -> None:
    timer = Timer(2)
    clock.advance(5)
    assert timer.c.recv() == 2.0


@pytest.mark.parametrize("dt", [0, 0.0, -1, -math.inf])
def test_timer_in_the_past_fires_at_once(clock: VirtualTime, dt: float) -> None:
    timer = Timer(dt)
    clock.advance(0)
    assert timer.c.recv() == 0.0


def test_timer_that_never_fires(clock: VirtualTime) -> None:
    timer = Timer(math.inf)
    clock.advance(1e6)
    clock.advance(math.inf)
    assert received(timer.c) is None
    assert timer.stop() is True


def test_stop_returns_whether_it_was_armed(clock: VirtualTime) -> None:
    timer = Timer(1)
    assert timer.stop() is True
    assert timer.stop() is False
    clock.advance(2)
    assert received(timer.c) is None


def test_stop_empties_the_channel(clock: VirtualTime) -> None:
    timer, ticker = Timer(1), Ticker(1)
    clock.advance(1)
    assert (len(timer.c), len(ticker.c)) == (1, 1)
    assert timer.stop() is False
    ticker.stop()
    assert (len(timer.c), len(ticker.c)) == (0, 0)


def test_reset_arms_again(clock: VirtualTime) -> None:
    timer = Timer(1)
    clock.advance(1)
    assert timer.c.recv() == 1.0
    timer.reset(2)
    clock.advance(2)
    assert timer.c.recv() == 3.0
    timer.reset(5)
    timer.stop()
    timer.reset(1)
    clock.advance(1)
    assert timer.c.recv() == 4.0


def test_reset_of_an_armed_timer_is_refused(clock: VirtualTime) -> None:
    message = r"^Timer\.reset: the timer is armed; must be stopped or expired$"
    for timer in (Timer(1), after_func(1, lambda: None)):
        with pytest.raises(PanicError, match=message):
            timer.reset(5)
    # It still fires at its original time.
    timer = Timer(1)
    with pytest.raises(PanicError):
        timer.reset(5)
    clock.advance(1)
    assert timer.c.recv() == 1.0


def test_reset_removes_an_unreceived_time(clock: VirtualTime) -> None:
    timer = Timer(1)
    clock.advance(1)
    timer.reset(1)
    assert len(timer.c) == 0
    clock.advance(1)
    assert timer.c.recv() == 2.0


def test_function_is_called_once_and_nothing_is_sent(clock: VirtualTime) -> None:
    calls: list[float] = []
    timer = Timer(1, lambda: calls.append(now()))
    named = Timer(dt=2, f=lambda: calls.append(now()))
    clock.advance(10)
    assert calls == [1.0, 2.0]
    assert timer.c == named.c == nilchan
    assert received(timer.c) is None


def test_function_may_reset_its_own_timer(clock: VirtualTime) -> None:
    calls: list[float] = []

    def again() -> None:
        calls.append(now())
        timer.reset(7)

    timer = after_func(7, again)
    clock.advance(30)
    assert calls == [7.0, 14.0, 21.0, 28.0]
    assert timer.stop() is True


def test_function_may_stop_others(clock: VirtualTime) -> None:
    timer = Timer(2)
    stopped: list[bool] = []
    after_func(1, lambda: stopped.append(timer.stop()))
    clock.advance(3)
    assert (stopped, received(timer.c)) == ([True], None)


def test_all_kinds_of_timers_in_order(clock: VirtualTime) -> None:
    """Like pygolang's test: the periods 5 and 7 coincide only at 35."""
    events: list[int] = []

    def seven() -> None:
        events.append(7)
        t7.reset(7)

    t23, t5, t7, every11 = Timer(23), Timer(5), Timer(7, seven), Ticker(11)
    while 23 not in events:
        clock.advance(1)
        which, _ = select(t23.c.recv, t5.c.recv, t7.c.recv, every11.c.recv, default)
        if which == 1:
            t5.reset(5)
        events.extend(([23], [5], [], [11], [])[which])
    assert now() == 23.0
    assert events == [5, 7, 5, 11, 7, 5, 5, 7, 11, 23]


def test_ticker_ticks_without_drift(clock: VirtualTime) -> None:
    ticker = Ticker(0.1)
    for i in range(1, 101):
        clock.advance(0.1)
        assert ticker.c.recv() == i / 10
    ticker.stop()
    ticker.stop()
    clock.advance(1)
    assert received(ticker.c) is None


def test_ticker_skips_for_a_slow_receiver(clock: VirtualTime) -> None:
    ticker = Ticker(1)
    clock.advance(5.5)
    assert received(ticker.c) == 1.0
    assert received(ticker.c) is None
    clock.advance(0.5)
    assert received(ticker.c) == 6.0


@pytest.mark.parametrize("dt", [0, -1.0, -math.inf])
def test_ticker_without_a_period(clock: VirtualTime, dt: float) -> None:
    with pytest.raises(PanicError, match=r"^ticker: dt <= 0$"):
        Ticker(dt)
    assert tick(dt) == nilchan
    assert clock.armed == 0


def test_after_and_tick_live_as_long_as_their_channels(clock: VirtualTime) -> None:
    c, d = after(1), tick(2)
    gc.collect()
    assert clock.armed == 2
    clock.advance(1)
    assert c.recv() == 1.0
    clock.advance(1)
    assert d.recv() == 2.0
    del d
    assert clock.armed == 0


def test_timer_without_references_is_disarmed(clock: VirtualTime) -> None:
    timer = Timer(1)
    channel = timer.c
    del timer
    assert clock.armed == 1, "its channel still references it"
    del channel
    assert clock.armed == 0
    ticker = Ticker(1)
    assert clock.armed == 1
    clock.advance(3)
    del ticker
    assert clock.armed == 0


def test_discarded_function_is_called(clock: VirtualTime) -> None:
    calls: list[int] = []
    after_func(1, lambda: calls.append(1))
    Timer(2, lambda: calls.append(2))
    gc.collect()
    clock.advance(2)
    assert calls == [1, 2]


def test_channel_is_always_the_same_object(clock: VirtualTime) -> None:
    timer, ticker = Timer(1), Ticker(1)
    assert timer.c is timer.c
    assert ticker.c is ticker.c
    c = timer.c
    assert {c: 1}[timer.c] == 1
    hashed = hash(c)
    del c
    assert hash(timer.c) == hashed, "a new object for the same channel"
    assert Timer(1, print).c is Timer(1, print).c


def test_channel_of_a_timer_is_a_channel_of_floats(clock: VirtualTime) -> None:
    c = Timer(1).c
    c.send(0.5)
    with pytest.raises(TypeError):
        c.send("now")  # type: ignore[arg-type]
    clock.advance(1)
    assert received(c) == 0.5
    assert received(c) is None, "the channel was full"
    closed = Timer(1)
    closed.c.close()
    clock.advance(1)
    assert closed.c.recv_() == (0.0, False)


def test_exceptions_of_functions_are_reported(
    clock: VirtualTime, reported: list[threading.ExceptHookArgs]
) -> None:
    calls: list[int] = []

    def fail() -> None:
        raise ZeroDivisionError("from the function")

    after_func(1, fail)
    after_func(1, lambda: calls.append(1))
    clock.advance(1)
    assert calls == [1]
    (args,) = reported
    assert args.exc_type is ZeroDivisionError
    assert str(args.exc_value) == "from the function"
    assert args.exc_traceback is not None
    assert args.exc_traceback.tb_frame.f_code is fail.__code__
    assert args.thread is None


def test_failing_excepthook(clock: VirtualTime, monkeypatch: pytest.MonkeyPatch) -> None:
    unraisable: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: unraisable.append(args.exc_type))
    monkeypatch.setattr(threading, "excepthook", lambda args: [][0])
    after_func(1, lambda: 1 // 0)
    clock.advance(1)
    assert unraisable == [ZeroDivisionError, IndexError]


def test_keyboard_interrupt_in_a_function_ends_advance(clock: VirtualTime) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    timer = Timer(2)
    after_func(1, interrupt)
    with pytest.raises(KeyboardInterrupt):
        clock.advance(2)
    assert timer.c.recv() == 2.0
    clock.advance(1)


@pytest.mark.parametrize("make", [Timer, Ticker, after, tick, time.sleep, Timer(1).reset])
def test_nan_is_refused(make: Any) -> None:
    with pytest.raises(ValueError, match="NaN"):
        make(math.nan)
    with pytest.raises(TypeError):
        make("1")


def test_uncallable_functions_are_refused(clock: VirtualTime) -> None:
    with pytest.raises(TypeError, match="f must be a function"):
        Timer(1, 5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="f must be a function"):
        after_func(1, None)  # type: ignore[arg-type]
    assert clock.armed == 0


def test_tiny_and_large_times(clock: VirtualTime) -> None:
    """Nanoseconds are distinguished; times beyond 584 years are never reached."""
    for dt in (1e-9, 1e-12, 1e-300):
        timer = Timer(dt)
        clock.advance(0)
        assert received(timer.c) is None
        clock.advance(1e-9)
        assert received(timer.c) is not None
    timer = Timer(1e300)
    clock.advance(1e300)
    assert received(timer.c) is None
    assert Timer(0.1 + 0.2).stop()


def test_decimal_times_add_up(clock: VirtualTime) -> None:
    timer = Timer(0.3)
    clock.advance(0.1)
    clock.advance(0.2)
    assert timer.c.recv() == 0.3


def test_reprs(clock: VirtualTime) -> None:
    timer, ticker, caller = Timer(1), Ticker(0.25), Timer(1, print)
    assert repr(timer) == "<Timer: armed>"
    assert repr(caller) == "<Timer with a function: armed>"
    assert repr(ticker) == "<Ticker: every 0.25 s>"
    assert repr(clock) == "<VirtualTime: 0 s, 3 armed>"
    assert repr(timer.c) == "<chan of C.double: 0 of 1 buffered>"
    timer.stop()
    ticker.stop()
    caller.stop()
    assert repr(timer) == "<Timer: stopped or expired>"
    assert repr(ticker) == "<Ticker: every 0.25 s, stopped>"
    assert repr(caller) == "<Timer with a function: stopped or expired>"


def test_sleep_waits_for_the_clock(clock: VirtualTime, go: Go) -> None:
    woke: list[float] = []

    def sleep() -> None:
        time.sleep(5)
        woke.append(now())

    thread = go(sleep)
    until(lambda: clock.armed == 1)
    assert clock.next_deadline == 5.0
    clock.advance(4.5)
    assert clock.armed == 1
    clock.advance(0.5)
    thread.join()
    assert woke == [5.0]
    time.sleep(0)
    time.sleep(-5)
    assert now() == 5.0


def test_receiver_in_another_thread_is_woken(clock: VirtualTime, go: Go) -> None:
    timer = Timer(60)
    got: chan[object] = chan(1)
    go(lambda: got.send(select(nilchan.recv, timer.c.recv_)))
    clock.advance(60)
    assert got.recv() == (1, (60.0, True))


class TestVirtualTime:
    def test_is_in_effect_within_the_block(self) -> None:
        before = now()
        with VirtualTime() as clock:
            assert now() == clock.now() == 0.0
            with VirtualTime(5) as inner:
                assert now() == 5.0
                inner.advance(1)
                assert (now(), clock.now()) == (6.0, 0.0)
            assert now() == 0.0
        assert now() >= before

    def test_timers_stay_on_the_clock_they_were_made_under(self) -> None:
        calls: list[float] = []
        with VirtualTime() as clock:
            timer, caller = Timer(1), Timer(2, lambda: calls.append(clock.now()))
        assert repr(timer) == "<Timer: armed>"
        clock.advance(2)
        assert timer.c.recv() == 1.0
        assert calls == [2.0]
        timer.reset(3)
        caller.reset(3)
        assert clock.armed == 2
        clock.advance(3)
        assert (timer.c.recv(), calls) == (5.0, [2.0, 5.0])

    def test_blocks_of_threads_may_overlap(self) -> None:
        first, second = VirtualTime(1), VirtualTime(2)
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert now() == 2.0
        second.__exit__(None, None, None)
        assert now() > 1e9
        second.__exit__(None, None, None)

    def test_keeps_its_state_when_not_in_effect(self) -> None:
        clock = VirtualTime()
        clock.advance(1.5)
        assert (clock.now(), clock.armed, clock.next_deadline) == (1.5, 0, None)

    def test_fires_in_order_at_their_own_times(self, clock: VirtualTime) -> None:
        calls: list[tuple[float, str]] = []

        def at(name: str) -> Any:
            return lambda: calls.append((now(), name))

        after_func(3, at("c"))
        after_func(1, at("a"))
        after_func(3, at("d"))
        after_func(2, at("b"))
        after_func(2, lambda: after_func(0.5, at("nested")))
        clock.advance(3)
        assert calls == [(1.0, "a"), (2.0, "b"), (2.5, "nested"), (3.0, "c"), (3.0, "d")]

    def test_refuses(self, clock: VirtualTime, reported: list[threading.ExceptHookArgs]) -> None:
        with pytest.raises(ValueError, match="cannot go back"):
            clock.advance(-1)
        with pytest.raises(ValueError, match="NaN"):
            clock.advance(math.nan)
        for start in (math.nan, math.inf):
            with pytest.raises(ValueError, match="finite"):
                VirtualTime(start)
        after_func(1, lambda: clock.advance(1))
        clock.advance(1)
        assert [args.exc_type for args in reported] == [RuntimeError]
        assert "already being advanced" in str(reported[0].exc_value)
        clock.advance(1)
        assert now() == 2.0

    def test_concurrent_advances_are_refused(self, clock: VirtualTime, go: Go) -> None:
        inside, outside = threading.Event(), threading.Event()

        def dwell() -> None:
            inside.set()
            outside.wait(30)

        after_func(1, dwell)
        thread = go(lambda: clock.advance(1))
        assert inside.wait(30)
        with pytest.raises(RuntimeError, match="by another thread"):
            clock.advance(1)
        outside.set()
        thread.join()
        assert now() == 1.0

    def test_is_collected_with_its_timers(self) -> None:
        class Owner:
            pass

        owner = Owner()
        seen = weakref.ref(owner)
        with VirtualTime() as clock:
            owner.timer = Timer(1, lambda owner=owner: owner)  # type: ignore[attr-defined, misc]
            owner.clock = clock  # type: ignore[attr-defined]
            owner.ticker = Ticker(1)  # type: ignore[attr-defined]
            clock.advance(1)
        del clock, owner
        gc.collect()
        assert seen() is None


class TestGarbage:
    class Owner:
        timer: Timer
        channel: chan[Any]

        def work(self) -> None:
            pass

    def test_cycle_through_a_stopped_timer_is_freed(self, clock: VirtualTime) -> None:
        Timer(1).stop()  # its memory is used again
        owner = self.Owner()
        owner.timer = Timer(1, owner.work)
        seen = weakref.ref(owner)
        owner.timer.stop()
        del owner
        gc.collect()
        assert seen() is None

    def test_cycle_through_an_expired_timer_is_freed(self, clock: VirtualTime) -> None:
        owner = self.Owner()
        owner.timer = Timer(1, owner.work)
        seen = weakref.ref(owner)
        clock.advance(1)
        del owner
        gc.collect()
        assert seen() is None

    def test_armed_timer_keeps_its_function(self, clock: VirtualTime) -> None:
        owner = self.Owner()
        owner.timer = Timer(1, owner.work)
        seen = weakref.ref(owner)
        del owner
        gc.collect()
        assert seen() is not None
        clock.advance(1)
        gc.collect()
        assert seen() is None

    def test_timer_in_a_cycle_is_disarmed(self, clock: VirtualTime) -> None:
        owner = self.Owner()
        owner.timer = Timer(1)
        owner.channel = chan(1)
        owner.channel.send((owner, owner.timer.c))
        assert clock.armed == 1
        del owner
        gc.collect()
        assert clock.armed == 0

    def test_no_reference_is_kept(self, clock: VirtualTime) -> None:
        def f() -> None:
            pass

        before = sys.getrefcount(f)
        for _ in range(5):
            timer = Timer(1, f)
            timer.stop()
            timer.reset(1)
            clock.advance(1)
            after_func(1, f)
            clock.advance(1)
        del timer
        assert sys.getrefcount(f) == before


def test_sizes() -> None:
    """Sizes of a timer and its channel in Python, without the driver's part."""
    timer = Timer(1)
    assert sys.getsizeof(timer) + sys.getsizeof(timer.c) <= 176
    assert sys.getsizeof(Ticker(1 * millisecond)) <= 144
