"""`punctual.aio` on a virtual clock: order of timers, cancellation, bounded iterations."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import math
import re
import socket
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from fractions import Fraction
from typing import Any
from unittest import mock

import punctual.aio
import pytest
from patience import ends_silently
from punctual.aio import EventLoop

# Maximum number of handles that become ready in one iteration: `BATCH` of the native module.
BATCH = 256


@pytest.fixture(params=["own", "asyncio's"], autouse=True)
def run_once(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs each test also as in a version of Python whose `_run_once` is not known."""
    if request.param != "own":
        monkeypatch.delattr(EventLoop, "_run_once")


@pytest.fixture
def loop(run_once: None) -> Iterator[EventLoop]:
    loop = EventLoop(clock="virtual")
    yield loop
    loop.close()


@pytest.fixture
def real(run_once: None) -> Iterator[EventLoop]:
    loop = EventLoop()
    yield loop
    loop.close()


def armed(loop: asyncio.AbstractEventLoop) -> int:
    timers: Any = loop
    return len(timers._scheduled)


def run_until(loop: asyncio.AbstractEventLoop, until: float) -> None:
    """Run the loop until a time of its clock."""
    loop.call_at(until, loop.stop)
    loop.run_forever()


# --- compatibility with asyncio


@pytest.mark.parametrize(("version", "is_own"), [((3, 14, 2), True), ((3, 15, 0), False)])
def test_unknown_versions_of_python_keep_their_run_once(
    version: tuple[int, ...], is_own: bool
) -> None:
    program = f"""
import asyncio, sys, punctual.queue
import typing, concurrent.futures
sys.version_info = {version}
from punctual.aio import EventLoop
assert ("_run_once" in vars(EventLoop)) is {is_own}
loop = EventLoop(clock="virtual")
loop.run_until_complete(asyncio.sleep(3600))
assert loop.time() == 3600
loop.close()
"""
    ends_silently(program, timeout=60)


def test_it_is_a_selector_event_loop(loop: EventLoop) -> None:
    assert isinstance(loop, asyncio.SelectorEventLoop)
    assert repr(loop) == "<EventLoop running=False closed=False debug=False>"


def test_handles_are_instances_of_asyncios_class(loop: EventLoop) -> None:
    handle = loop.call_at(5, int, "7")
    assert isinstance(handle, asyncio.TimerHandle)
    assert isinstance(handle, asyncio.Handle)
    assert handle.when() == 5
    assert type(handle.when()) is int
    assert not handle.cancelled()
    assert weakref.ref(handle)() is handle


@pytest.mark.parametrize("debug", [False, True])
def test_handles_have_the_repr_of_asyncio(loop: EventLoop, debug: bool) -> None:
    peer = asyncio.SelectorEventLoop()
    try:
        for each in (loop, peer):
            each.set_debug(debug)
        handles = [each.call_at(7.5, print, "x", [1]) for each in (loop, peer)]
        shown = [re.sub(r":\d+", ":LINE", repr(handle)) for handle in handles]
        assert shown[0] == shown[1]
        for handle in handles:
            handle.cancel()
        shown = [re.sub(r":\d+", ":LINE", repr(handle)) for handle in handles]
        assert shown[0] == shown[1]
    finally:
        peer.close()


def test_handles_compare_and_hash_by_time(loop: EventLoop) -> None:
    first, second = loop.call_at(1.0, print), loop.call_at(2.0, print)
    same = loop.call_at(1.0, print)
    assert first < second
    assert second > first
    assert first <= same
    assert first >= same
    assert first == same
    assert (first != same) is False
    assert first != second
    assert first != loop.call_at(1.0, print, "other arguments")
    assert hash(first) == hash(1.0)
    assert first != 1.0
    with pytest.raises(TypeError):
        first < 1.0  # type: ignore[operator]  # noqa: B015
    theirs = asyncio.TimerHandle(1.0, print, (), loop)
    assert first == theirs
    assert theirs == first
    assert theirs < second


def test_private_attributes_equal_those_of_asyncio(loop: EventLoop) -> None:
    handle: Any = loop.call_at(1.0, print, "x")
    assert handle._callback is print
    assert handle._args == ("x",)
    assert handle._when == 1.0
    assert handle._loop is loop
    assert handle._scheduled
    assert not handle._cancelled
    assert handle._source_traceback is None
    assert handle._context.get(contextvars.ContextVar("nothing")) is None
    handle.cancel()
    assert handle._callback is None
    assert handle._args is None
    assert not handle._scheduled
    assert handle._cancelled


def test_keyword_arguments(loop: EventLoop) -> None:
    calls: list[float] = []
    context = contextvars.copy_context()
    later: Any = loop.call_later
    at: Any = loop.call_at
    later(delay=2, callback=lambda: calls.append(2))
    at(callback=lambda: calls.append(1), when=1, context=context)
    at(3, calls.append, 3, context=None)
    run_until(loop, 4)
    assert calls == [1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "keywords"),
    [
        ((), {}),
        ((1,), {}),
        ((1, print), {"callback": print}),
        ((1, print), {"delay": 1}),
        ((1, print), {"kontext": None}),
        ((None, print), {}),
        (("1", print), {}),
        ((Decimal(1), print), {}),
    ],
)
def test_wrong_arguments(loop: EventLoop, arguments: Any, keywords: Any) -> None:
    later: Any = loop.call_later
    with pytest.raises(TypeError):
        later(*arguments, **keywords)
    assert armed(loop) == 0


def test_times_of_other_types(loop: EventLoop) -> None:
    delay: Any = Fraction(1, 2)
    assert loop.call_later(delay, print).when() == 0.5
    assert loop.call_later(True, print).when() == 1.0
    assert loop.call_later(10**6, print).when() == 1e6


def test_nan_is_refused_and_infinity_never_fires(loop: EventLoop) -> None:
    with pytest.raises(ValueError, match="NaN"):
        loop.call_later(math.nan, print)
    loop.call_later(math.inf, pytest.fail, "an infinite timer fired")
    loop.call_later(1e300, pytest.fail, "a distant timer fired")
    run_until(loop, 1e9)
    assert armed(loop) == 2


def test_infinite_timers_never_fire(loop: EventLoop) -> None:
    calls: list[str] = []
    for never in (math.inf, 1e10):
        loop.call_later(never, calls.append, "an infinite timer fired")
    # Many cancelled timers, whose memory the wheel frees.
    for handle in [loop.call_later(1, print) for _ in range(1 << 16)]:
        handle.cancel()
    loop.call_later(5, calls.append, "in time")
    loop.advance(9.2e9)
    run_until(loop, loop.time())
    # A program's own clock that returns infinity.
    with mock.patch.object(loop, "time", return_value=math.inf):
        loop.call_later(1, calls.append, "after the end")
        for _ in range(10):
            loop.call_soon(loop.stop)
            loop.run_forever()
    run_until(loop, loop.time())
    assert calls == ["in time"]
    assert armed(loop) == 3


def test_none_is_refused(loop: EventLoop) -> None:
    nothing: Any = None
    with pytest.raises(TypeError, match="delay must not be None"):
        loop.call_later(nothing, print)
    with pytest.raises(TypeError, match="when cannot be None"):
        loop.call_at(nothing, print)


# --- order


def test_timers_fire_by_deadline_and_then_in_arming_order(loop: EventLoop) -> None:
    calls: list[str] = []
    for when, name in [(3, "d"), (1, "a"), (2, "b"), (2, "c")]:
        loop.call_at(when, calls.append, name)
    run_until(loop, 4)
    assert calls == ["a", "b", "c", "d"]


def test_overdue_timers_fire_in_the_order_of_their_deadlines(loop: EventLoop) -> None:
    calls: list[str] = []
    loop.advance(100)
    loop.call_later(-1, calls.append, "later")
    loop.call_later(-2, calls.append, "earlier")
    run_until(loop, 100)
    assert calls == ["earlier", "later"]


def test_timers_never_fire_early(loop: EventLoop) -> None:
    # Times whose products with 1e9 round down.
    late: list[float] = []

    def note(when: float) -> None:
        late.append(loop.time() - when)

    for when in [0.1 + 0.2, 1.1, 123_456.789_012_345_67, 1e5 + 1e-9, math.pi, 2.0**20 + 2.0**-31]:
        loop.call_at(when, note, when)
    run_until(loop, 2e6)
    assert len(late) == 6
    assert all(0 <= seconds < 1.5e-9 for seconds in late)


def test_events_precede_timers_and_run_between_batches(loop: EventLoop) -> None:
    order: list[str] = []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)

        def readable() -> None:
            order.append("read")
            ours.recv(1)

        loop.add_reader(ours, readable)
        for number in range(3 * BATCH):
            loop.call_at(1, order.append, str(number))
        loop.advance(1)
        theirs.send(b"x")
        loop.call_at(1, theirs.send, b"y")
        run_until(loop, 2)
        loop.remove_reader(ours)
    timers = [number for number in order if number != "read"]
    assert timers == [str(number) for number in range(3 * BATCH)]
    assert order[0] == "read"
    assert order.count("read") == 2


def test_an_iteration_fires_at_most_one_batch(loop: EventLoop) -> None:
    calls: list[int] = []
    for number in range(10 * BATCH):
        loop.call_at(1, calls.append, number)
    loop.advance(1)
    turns: list[int] = []

    def count() -> None:
        turns.append(len(calls))
        if len(calls) < 10 * BATCH:
            loop.call_soon(count)
        else:
            loop.stop()

    loop.call_soon(count)
    loop.run_forever()
    assert calls == list(range(10 * BATCH))
    steps = [after - before for before, after in zip(turns, turns[1:])]
    assert max(steps) == BATCH
    assert len(steps) <= 12


def test_a_due_timer_armed_by_a_timer_fires_in_the_next_iteration(loop: EventLoop) -> None:
    order: list[str] = []

    def first() -> None:
        order.append("first")
        loop.call_soon(order.append, "soon")
        loop.call_at(0, order.append, "armed")

    loop.call_at(1, first)
    loop.call_at(1, order.append, "second")
    run_until(loop, 2)
    assert order == ["first", "second", "soon", "armed"]


# --- cancelling


def test_a_cancelled_timer_is_removed_at_once(loop: EventLoop) -> None:
    class Callback:
        def __call__(self) -> None:
            pytest.fail("cancelled")

    callback = Callback()
    gone = weakref.ref(callback)
    handle = loop.call_later(1, callback)
    assert armed(loop) == 1
    assert handle in loop._scheduled  # type: ignore[attr-defined]
    handle.cancel()
    del callback
    assert gone() is None
    assert handle.cancelled()
    assert armed(loop) == 0
    assert handle not in loop._scheduled  # type: ignore[attr-defined]
    handle.cancel()
    run_until(loop, 2)


def test_memory_stays_bounded(loop: EventLoop) -> None:
    for _ in range(10):
        handles = [loop.call_later(1 + number, print) for number in range(1_000)]
        assert armed(loop) == 1_000
        for handle in handles:
            handle.cancel()
        assert armed(loop) == 0


def test_many_timers_armed_and_removed_repeatedly(loop: EventLoop) -> None:
    # So many timers that the empty wheel frees memory after all of them fired or were cancelled.
    many = 1 << 17
    stays = loop.call_later(1e6, print)
    for tide in range(2):
        calls: list[int] = []
        handles = [loop.call_later(1 + number % 7, calls.append, 0) for number in range(many)]
        assert armed(loop) == many + 1
        stays.cancel()
        if tide == 0:
            run_until(loop, loop.time() + 8)
            assert len(calls) == many
        else:
            for handle in handles:
                handle.cancel()
        assert armed(loop) == 0
        assert list(loop._scheduled) == []  # type: ignore[attr-defined]
        stays = loop.call_later(1e6, print)
        handles[0].cancel()
        assert armed(loop) == 1
    calls = []
    loop.call_later(1, calls.append, 1)
    run_until(loop, loop.time() + 2)
    assert calls == [1]


def test_cancelling_a_timer_due_in_the_same_iteration(loop: EventLoop) -> None:
    second: list[asyncio.TimerHandle] = []
    loop.call_at(1, lambda: second[0].cancel())
    second.append(loop.call_at(1, pytest.fail, "cancelled"))
    run_until(loop, 2)
    assert second[0].cancelled()


def test_cancelling_a_fired_timer(loop: EventLoop) -> None:
    calls: list[int] = []
    handle = loop.call_at(1, calls.append, 1)
    run_until(loop, 2)
    assert not handle.cancelled()
    handle.cancel()
    assert handle.cancelled()
    assert calls == [1]


def test_a_finalizer_may_use_the_loop(loop: EventLoop) -> None:
    class Callback:
        def __call__(self) -> None:
            pytest.fail("cancelled")

        def __del__(self) -> None:
            loop.call_later(1, calls.append, "again")

    calls: list[str] = []
    loop.call_later(1, Callback()).cancel()
    assert armed(loop) == 1
    run_until(loop, 2)
    assert calls == ["again"]


def test_closing_drops_timers(loop: EventLoop) -> None:
    handle = loop.call_later(1, print)
    loop.close()
    loop.close()
    assert armed(loop) == 0
    assert not handle._scheduled  # type: ignore[attr-defined]
    handle.cancel()
    for arm in (loop.call_later, loop.call_at):
        with pytest.raises(RuntimeError, match="Event loop is closed"):
            arm(1, print)


# --- garbage collection


def test_a_dropped_loop_is_collected_with_its_timers() -> None:
    class Owner:
        def __init__(self) -> None:
            self.loop = EventLoop()
            self.handle = self.loop.call_later(3_600, self.call)

        def call(self) -> None:
            pytest.fail("dropped")

    def dropped() -> list[weakref.ref[Any]]:
        owner = Owner()
        return [weakref.ref(owner), weakref.ref(owner.loop), weakref.ref(owner.handle)]

    gone = dropped()
    with pytest.warns(ResourceWarning, match="unclosed event loop"):
        gc.collect()
    assert [each() for each in gone] == [None, None, None]


def test_a_cycle_through_a_fired_handle_is_collected(loop: EventLoop) -> None:
    class Owner:
        def __init__(self) -> None:
            self.handle = loop.call_at(1, self.call)

        def call(self) -> None:
            pass

    gone = weakref.ref(Owner())
    assert gone() is not None
    run_until(loop, 2)
    gc.collect()
    assert gone() is None


def test_a_closed_loop_is_freed_at_once() -> None:
    gc.collect()
    gc.disable()
    try:
        loop = EventLoop()
        loop.call_later(1, print)
        gone, selector = weakref.ref(loop), weakref.ref(loop._selector)
        loop.close()
        del loop
        assert gone() is None
        assert selector() is None
    finally:
        gc.enable()


# --- callbacks


def test_contexts(loop: EventLoop) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    seen: list[str] = []

    def see(name: str) -> None:
        seen.append(f"{name}: {variable.get()}")
        variable.set(name)

    given = contextvars.copy_context()
    given.run(variable.set, "given")
    variable.set("current")
    first = loop.call_at(1, see, "first")
    loop.call_at(2, see, "second")
    loop.call_at(3, see, "third", context=given)
    loop.call_at(4, see, "fourth", context=given)
    variable.set("after")
    run_until(loop, 5)
    assert seen == ["first: current", "second: current", "third: given", "fourth: third"]
    if sys.version_info >= (3, 12):
        assert first.get_context()[variable] == "first"


def test_exceptions_go_to_the_loop(loop: EventLoop) -> None:
    contexts: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _loop, context: contexts.append(context))

    def fail(_argument: str) -> None:
        raise KeyError("x")

    handle = loop.call_at(1, fail, "y")
    run_until(loop, 2)
    (context,) = contexts
    assert set(context) == {"message", "exception", "handle"}
    assert context["message"].startswith("Exception in callback test_exceptions_go_to_the_loop")
    assert isinstance(context["exception"], KeyError)
    traceback = context["exception"].__traceback__
    assert traceback is not None
    assert traceback.tb_frame.f_code.co_name == "fail"
    assert context["handle"] is handle


@pytest.mark.parametrize("exception", [SystemExit, KeyboardInterrupt])
def test_exceptions_that_end_programs_propagate(
    loop: EventLoop, exception: type[BaseException]
) -> None:
    def fail() -> None:
        raise exception

    loop.call_at(1, fail)
    with pytest.raises(exception):
        run_until(loop, 2)


# --- debug mode


def test_debug_mode_shows_where_a_handle_was_created(loop: EventLoop) -> None:
    loop.set_debug(True)
    for arm in (loop.call_later, loop.call_at):
        handle: Any = arm(1, print)
        assert (
            handle._source_traceback[-1].name == "test_debug_mode_shows_where_a_handle_was_created"
        )
        assert f"created at {__file__}" in repr(handle)
        handle.cancel()
        assert "print" in repr(handle)
        assert "cancelled" in repr(handle)


def test_debug_mode_refuses_the_same_arguments_as_asyncio(loop: EventLoop) -> None:
    async def coroutine() -> None: ...

    loop.set_debug(True)
    uncallable: Any = 1
    with pytest.raises(TypeError, match=r"a callable object was expected by call_at\(\)"):
        loop.call_later(1, uncallable)
    with pytest.raises(TypeError, match=r"coroutines cannot be used with call_at\(\)"):
        loop.call_later(1, coroutine)
    errors: list[str] = []

    def elsewhere() -> None:
        try:
            loop.call_later(1, print)
        except RuntimeError as error:
            errors.append(str(error))

    async def main() -> None:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()

    loop.run_until_complete(main())
    assert "Non-thread-safe operation" in errors[0]


def test_debug_mode_logs_slow_callbacks(real: EventLoop, caplog: pytest.LogCaptureFixture) -> None:
    real.set_debug(True)
    real.slow_callback_duration = 1e-9
    real.call_later(0, time.sleep, 1e-6)
    with caplog.at_level(logging.WARNING, "asyncio"):
        run_until(real, real.time())
    assert any("TimerHandle" in record.getMessage() for record in caplog.records)


# --- clocks


def test_a_virtual_clock_jumps_when_the_loop_is_idle() -> None:
    async def main() -> tuple[float, bool]:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        late = asyncio.ensure_future(asyncio.sleep(7_200))
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.sleep(86_400), 3_600)
        return loop.time() - begun, late.done()

    begun = time.monotonic()
    made = punctual.aio.run(main(), loop_factory=lambda: EventLoop(clock="virtual"))
    assert made == (3_600, False)
    assert time.monotonic() - begun < 60


def test_advancing(loop: EventLoop, real: EventLoop) -> None:
    calls: list[float] = []
    loop.call_at(10, lambda: calls.append(loop.time()))
    loop.advance(12.5)
    assert loop.time() == 12.5
    run_until(loop, 12.5)
    assert calls == [12.5]
    loop.advance(0)
    for wrong in (-1, math.nan):
        with pytest.raises(ValueError, match="must not be negative"):
            loop.advance(wrong)
    for wrong in (1e10, 1e300, math.inf):
        with pytest.raises(OverflowError, match="exceeds the range of the clock"):
            loop.advance(wrong)
    assert loop.time() == 12.5
    with pytest.raises(RuntimeError, match="virtual"):
        real.advance(1)
    no_clock: Any = "sundial"
    with pytest.raises(ValueError, match="sundial"):
        EventLoop(clock=no_clock)


def test_a_virtual_clock_waits_for_executors(loop: EventLoop) -> None:
    release = threading.Event()

    async def main() -> tuple[bool, float]:
        waiting = loop.run_in_executor(None, release.wait, 60)
        # This takes another iteration of the loop, in which the clock must not jump.
        loop.call_soon(release.set)
        return await asyncio.wait_for(waiting, 3_600), loop.time()

    assert loop.run_until_complete(main()) == (True, 0.0)
    loop.run_until_complete(loop.shutdown_default_executor())


def test_due_timers_do_not_wait_for_executors(loop: EventLoop) -> None:
    release = threading.Event()

    async def main() -> bool:
        waiting = loop.run_in_executor(None, release.wait, 10)
        # The executor's call waits for a timer that is due at the current time of the clock.
        loop.call_soon(loop.call_later, 0, release.set)
        return await waiting

    assert loop.run_until_complete(main())
    loop.run_until_complete(loop.shutdown_default_executor())


def test_a_virtual_clock_waits_for_the_shutdown_of_executors(loop: EventLoop) -> None:
    release = threading.Event()
    executor = ThreadPoolExecutor(1)
    loop.set_default_executor(executor)
    # Submitted without the loop, which waits for calls of its own `run_in_executor` anyway.
    executor.submit(release.wait, 60)

    async def main() -> float:
        loop.call_soon(release.set)
        await asyncio.wait_for(loop.shutdown_default_executor(), 300)
        return loop.time()

    assert loop.run_until_complete(main()) == 0.0


def test_a_clock_supplied_by_the_program() -> None:
    class Simulated(EventLoop):
        now = 0.0

        def time(self) -> float:
            self.now += 0.25
            return self.now

    loop = Simulated()
    try:
        calls: list[float] = []
        handle = loop.call_later(1, lambda: calls.append(loop.now))
        assert handle.when() == 1.25
        loop.call_at(10, loop.stop)
        with mock.patch.object(loop._selector, "select", return_value=[]):
            loop.run_forever()
        assert len(calls) == 1
        assert 1.25 <= calls[0] < 10
    finally:
        loop.close()


def test_methods_overridden_by_the_program(loop: EventLoop) -> None:
    with mock.patch.object(loop, "time", return_value=100.0):
        assert loop.call_later(1, print).when() == 101.0
    assert loop.call_later(1, print).when() == 1.0
    with mock.patch.object(loop, "call_at", wraps=loop.call_at) as at:
        assert loop.call_later(1, print, "x").when() == 1.0
    at.assert_called_once_with(1.0, print, "x")
    with mock.patch.object(loop, "_timer_handle_cancelled") as cancelled:
        handle = loop.call_later(1, print)
        handle.cancel()
        handle.cancel()
    cancelled.assert_called_once_with(handle)

    class Counting(EventLoop):
        arms = 0

        def call_at(self, *args: Any, **kwargs: Any) -> asyncio.TimerHandle:  # type: ignore[override]
            self.arms += 1
            return super().call_at(*args, **kwargs)

    counting = Counting()
    counting.call_later(1, print)
    assert counting.arms == 1
    counting.close()


# --- the wheel in place of the heap


def test_the_object_in_place_of_the_heap(loop: EventLoop) -> None:
    timers: Any = loop._scheduled  # type: ignore[attr-defined]
    assert len(timers) == 0
    handles = [loop.call_at(when, print) for when in (3, 1, 2)]
    # It is false: otherwise asyncio would use it as its heap.
    assert not timers
    assert len(timers) == 3
    assert sorted(timers) == sorted(handles)
    assert print not in timers
    assert repr(timers) == "<Timers: 3 armed, the next at 1>"


# --- running


def test_run() -> None:
    async def main() -> str:
        loop = asyncio.get_running_loop()
        assert type(loop) is EventLoop
        assert loop.get_debug()
        asyncio.ensure_future(asyncio.sleep(3_600))  # noqa: RUF006
        await asyncio.sleep(0)
        return "done"

    assert punctual.aio.run(main(), debug=True) == "done"


def test_run_refuses_invalid_uses() -> None:
    not_a_coroutine: Any = 5
    with pytest.raises((ValueError, TypeError)):
        punctual.aio.run(not_a_coroutine)

    async def inner() -> None: ...

    async def main() -> None:
        coroutine = inner()
        with pytest.raises(RuntimeError, match="running event loop"):
            punctual.aio.run(coroutine)
        coroutine.close()

    punctual.aio.run(main())


def test_run_before_python_3_11(caplog: pytest.LogCaptureFixture) -> None:
    from punctual.aio import _run

    ends: list[str] = []

    async def left(fails: bool) -> None:
        try:
            await asyncio.sleep(3_600)
        finally:
            ends.append("left")
            if fails:
                raise ValueError("at the end")

    async def main() -> str:
        tasks = [asyncio.ensure_future(left(fails)) for fails in (False, True)]
        await asyncio.sleep(0)
        return f"{len(tasks)} left"

    assert _run._run(main(), None, EventLoop) == "2 left"
    assert ends == ["left", "left"]
    assert "unhandled exception during" in caplog.text


@pytest.mark.skipif(sys.version_info < (3, 11), reason="asyncio.Runner came with Python 3.11")
def test_runner() -> None:
    async def main() -> type:
        return type(asyncio.get_running_loop())

    runner: Any = asyncio.Runner  # type: ignore[attr-defined, unused-ignore]
    with runner(loop_factory=punctual.aio.new_event_loop) as each:
        assert each.run(main()) is EventLoop


@pytest.mark.skipif(sys.version_info >= (3, 16), reason="this Python has no policies")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_policy() -> None:
    async def main() -> type:
        return type(asyncio.get_running_loop())

    before = asyncio.get_event_loop_policy()
    try:
        punctual.aio.install()
        assert isinstance(asyncio.get_event_loop_policy(), punctual.aio.EventLoopPolicy)
        assert asyncio.run(main()) is EventLoop
    finally:
        asyncio.set_event_loop_policy(before)


def test_without_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "punctual.aio._policy", None)
    monkeypatch.delattr(punctual.aio, "_policy", raising=False)
    with pytest.raises((AttributeError, ImportError)):
        punctual.aio.install  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'uninstall'"):
        punctual.aio.uninstall  # noqa: B018
