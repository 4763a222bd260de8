"""The event loop: asyncio's selector loop with its timers on a wheel."""

from __future__ import annotations

import asyncio
import selectors
from typing import TYPE_CHECKING, Any, Callable, Literal, TypeVar

from punctual._punctual import LoopTimers, Sleep

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from typing_extensions import TypeVarTuple, Unpack

    _Args = TypeVarTuple("_Args")

_T = TypeVar("_T")


class WheelTimers(LoopTimers):
    """Mixin that puts a loop's timers on a wheel; stands before the loop among the bases."""

    _selector: selectors.BaseSelector

    def _process_events(self, event_list: list[tuple[selectors.SelectorKey, int]]) -> None:
        # asyncio calls this once a turn, after `select` and before it looks at its heap: so what
        # is due comes after the events, as it does there.
        super()._process_events(event_list)  # type: ignore[misc]
        self._move_due()

    def _sleep_on_wheel(self) -> None:
        """Have the loop's selector wake for timers."""
        selector = self._selector
        # For `ppoll` on the descriptor of an epoll, which itself takes milliseconds. The other
        # selectors take microseconds or better, or have no descriptor.
        epoll: Any = getattr(selectors, "EpollSelector", ())
        fd = selector.fileno() if isinstance(selector, epoll) else None
        # On the selector itself, which stays what it is for everybody who looks at it.
        selector.select = Sleep(self, selector.select, fd)  # type: ignore[method-assign]

    def _wake_for_events_only(self) -> None:
        """Undo `_sleep_on_wheel`."""
        vars(self._selector).pop("select", None)


class EventLoop(WheelTimers, asyncio.SelectorEventLoop):
    """asyncio's selector event loop with its timers on a timing wheel.

    `call_later`, `call_at` and what is built on them (`asyncio.sleep`, `asyncio.timeout`,
    `asyncio.wait_for`) take the same time with ten timers and with a million. A cancelled timer is
    gone at once. Timers fire within some 0.1 ms of their time on an idle machine, never before it.
    However many fall due together, sockets are looked at after every 256 of them. Everything else
    is asyncio's own.

    `selector` is as for `asyncio.SelectorEventLoop`: None for the system's best.

    With `clock="virtual"` the loop's clock starts at 0, stands still while there is anything to do
    and jumps to the next timer when there is not: a test that sleeps for an hour takes no time. It
    waits for calls of `run_in_executor`, but not for other processes and threads, whose sockets it
    looks at before it jumps. `clock="monotonic"` is the system's clock, `time.monotonic()`. Raises
    `ValueError` for any other.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector | None = None,
        *,
        clock: Literal["monotonic", "virtual"] = "monotonic",
    ) -> None:
        if clock not in ("monotonic", "virtual"):
            # There is nothing to close: `__del__` asks.
            self._closed = True
            raise ValueError(f'the clock is "monotonic" or "virtual", not {clock!r}')
        # Calls on executors that go on, for which a virtual clock has to wait.
        self._in_executors = 0
        self._is_virtual = clock == "virtual"
        if self._is_virtual:
            self._set_clock(0.0)
        super().__init__(selector)
        self._sleep_on_wheel()

    def _process_events(self, event_list: list[tuple[selectors.SelectorKey, int]]) -> None:
        # As in the mixin, for turns in which nothing happened.
        if event_list:
            super()._process_events(event_list)
        else:
            self._move_due()

    def close(self) -> None:
        """Close the loop and forget its timers; do nothing to a closed loop.

        Raises `RuntimeError` if the loop is running.
        """
        if not self.is_running() and not self.is_closed():
            self._wake_for_events_only()
        super().close()

    def advance(self, seconds: float) -> None:
        """Move a virtual clock forward; what falls due by it fires in the turns that follow.

        To let every timer on the way fire at its own time, sleep: `await asyncio.sleep(seconds)`.

        Raises `RuntimeError` if the clock is not virtual, `ValueError` unless `seconds` is from 0
        on, `OverflowError` if the clock would show more than 292 years.
        """
        if not self._is_virtual:
            raise RuntimeError('only the clock of an EventLoop(clock="virtual") can be advanced')
        if not seconds >= 0:
            raise ValueError(f"the clock goes forward: {seconds} s")
        self._set_clock(self.time() + seconds)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[_Args]], _T], *args: Unpack[_Args]
    ) -> asyncio.Future[_T]:
        """Call `func(*args)` in `executor`: asyncio's, for which a virtual clock waits."""
        call = super().run_in_executor(executor, func, *args)
        if self._is_virtual:
            # What takes real time must not lose against a clock that takes none.
            self._in_executors += 1
            call.add_done_callback(self._came_back)
        return call

    async def shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:
        """Wait for the threads of the default executor: asyncio's, for which a virtual clock waits.

        Its timeout, from Python 3.12 on, is none on a virtual clock.
        """
        self._in_executors += 1
        try:
            await super().shutdown_default_executor(*args, **kwargs)
        finally:
            self._in_executors -= 1

    def _came_back(self, _call: asyncio.Future[Any]) -> None:
        self._in_executors -= 1

    def _is_waiting(self) -> bool:
        """Tell whether a virtual clock has to wait for events before it may jump."""
        return self._in_executors > 0


def new_event_loop() -> EventLoop:
    """Make a new event loop, which the caller closes."""
    return EventLoop()
