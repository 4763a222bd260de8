"""The event loop: asyncio's selector loop with its timers on a wheel."""

from __future__ import annotations

import asyncio
import selectors
import sys
from typing import TYPE_CHECKING, Any, Callable, Literal, TypeVar

from punctual._punctual import LoopTimers, Sleep

if TYPE_CHECKING:
    from collections import deque
    from concurrent.futures import Executor

    from typing_extensions import TypeVarTuple, Unpack

    _Args = TypeVarTuple("_Args")

_T = TypeVar("_T")

_RUN_ONCE_IS_KNOWN = (3, 9) <= sys.version_info[:2] <= (3, 14)
"""True in versions whose private `_run_once` was compared with the one in `EventLoop`.

Another version keeps its own, which works with any timers and is a little slower.
"""


class WheelTimers(LoopTimers):
    """Mixin that puts a loop's timers on a wheel; must precede the loop in the bases."""

    _selector: selectors.BaseSelector

    def _process_events(self, event_list: list[tuple[selectors.SelectorKey, int]]) -> None:
        # asyncio calls this once per iteration, after `select` and before it looks for due timers
        # in its heap. So due timers run after the callbacks of events, as in asyncio.
        super()._process_events(event_list)  # type: ignore[misc]
        self._move_due()

    def _sleep_on_wheel(self) -> None:
        """Make the loop's selector wake for timers."""
        selector = self._selector
        # `Sleep` calls `ppoll` on the descriptor of an epoll, because `epoll_wait` counts
        # milliseconds. Other selectors count microseconds or nanoseconds, have no descriptor, or
        # override `select`; `Sleep` calls their `select`.
        epoll: Any = getattr(selectors, "EpollSelector", None)
        is_epoll = epoll is not None and type(selector).select is epoll.select
        fd: int | None = selector.fileno() if is_epoll else None  # type: ignore[attr-defined]
        # The attribute hides the method of the class, and the selector keeps its class.
        selector.select = Sleep(self, selector.select, fd)  # type: ignore[method-assign]

    def _wake_for_events_only(self) -> None:
        """Undo `_sleep_on_wheel`."""
        vars(self._selector).pop("select", None)


class EventLoop(WheelTimers, asyncio.SelectorEventLoop):
    """asyncio's selector event loop with its timers on a timing wheel.

    `call_later`, `call_at` and the functions that use them (`asyncio.sleep`, `asyncio.timeout`,
    `asyncio.wait_for`) take the same time with ten timers and with a million. A cancelled timer is
    removed at once. Timers fire within some 0.1 ms after their deadline on an idle machine, never
    before it. The loop polls its sockets after every 256 due timers. Everything else is asyncio's
    own.

    `selector` is the same as for `asyncio.SelectorEventLoop`: None is the most efficient selector
    of the system.

    With `clock="virtual"` the loop's clock starts at 0, stands still while the loop is busy and
    jumps to the next timer when it is idle: a test that sleeps for an hour takes no time. The
    clock waits for calls of `run_in_executor`, but not for other threads and processes: the loop
    only polls its sockets before a jump. `clock="monotonic"` is the system's clock,
    `time.monotonic()`. Raises `ValueError` for any other value.
    """

    # Attributes of `asyncio.BaseEventLoop`.
    _debug: bool
    _ready: deque[asyncio.Handle]
    _stopping: bool

    def __init__(
        self,
        selector: selectors.BaseSelector | None = None,
        *,
        clock: Literal["monotonic", "virtual"] = "monotonic",
    ) -> None:
        if clock not in ("monotonic", "virtual"):
            # `__del__` reads this attribute: the loop has nothing to close.
            self._closed = True
            raise ValueError(f'clock must be "monotonic" or "virtual", not {clock!r}')
        # Number of running calls on executors, for which a virtual clock waits.
        self._in_executors = 0
        self._is_virtual = clock == "virtual"
        if self._is_virtual:
            self._set_clock(0.0)
        super().__init__(selector)
        self._sleep_on_wheel()

    if _RUN_ONCE_IS_KNOWN:

        def _run_once(self) -> None:
            # As in asyncio, without its heap. Most iterations of a busy loop have no events.
            if self._debug:
                super()._run_once()  # type: ignore[misc]
                return
            ready = self._ready
            events = self._selector.select(0 if ready or self._stopping else None)
            if events:
                self._process_events(events)
            else:
                self._move_due()
            for _ in range(len(ready)):
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
            # As in asyncio: an exception that references this frame must not keep these objects
            # alive.
            events = handle = None  # type: ignore[assignment]

    def close(self) -> None:
        """Close the loop and drop its timers. Does nothing if the loop is closed.

        Raises `RuntimeError` if the loop is running.
        """
        if not self.is_running() and not self.is_closed():
            self._wake_for_events_only()
        super().close()

    def advance(self, seconds: float) -> None:
        """Advance a virtual clock. Due timers fire in the next iterations.

        To fire each timer at its own time instead, use `await asyncio.sleep(seconds)`.

        Raises `RuntimeError` if the clock is not virtual, `ValueError` if `seconds` is
        negative or NaN, `OverflowError` if the time would exceed 292 years.
        """
        if not self._is_virtual:
            raise RuntimeError('only the clock of an EventLoop(clock="virtual") can be advanced')
        if not seconds >= 0:
            raise ValueError(f"seconds must not be negative: {seconds}")
        self._set_clock(self.time() + seconds)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[_Args]], _T], *args: Unpack[_Args]
    ) -> asyncio.Future[_T]:
        """Call `func(*args)` in `executor`, as asyncio does. A virtual clock waits for the call."""
        call = super().run_in_executor(executor, func, *args)
        if self._is_virtual:
            # The call takes real time, so the virtual clock must not jump ahead of it.
            self._in_executors += 1
            call.add_done_callback(self._executor_call_ended)
        return call

    async def shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:
        """Wait for the threads of the default executor, as asyncio does.

        A virtual clock does not jump meanwhile, so the timeout (from Python 3.12 on) never ends the
        wait.
        """
        self._in_executors += 1
        try:
            await super().shutdown_default_executor(*args, **kwargs)
        finally:
            self._in_executors -= 1

    def _executor_call_ended(self, _call: asyncio.Future[Any]) -> None:
        self._in_executors -= 1

    def _is_waiting(self) -> bool:
        """Return whether a virtual clock must wait for events before it may jump."""
        return self._in_executors > 0


def new_event_loop() -> EventLoop:
    """Create an event loop, which the caller must close."""
    return EventLoop()
