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
    """Mixin that puts the timers of a selector event loop on a wheel; comes before the loop in the bases."""

    _selector: selectors.BaseSelector

    def _process_events(self, event_list: list[tuple[selectors.SelectorKey, int]]) -> None:
        # asyncio calls this once a turn, after `select` and before it looks at its heap: so what is due comes after
        # the events, as it does there.
        super()._process_events(event_list)  # type: ignore[misc]
        self._move_due()

    def _sleep_on_wheel(self) -> None:
        """Has the loop's selector wake for timers."""
        selector = self._selector
        # `ppoll` on the descriptor of an epoll; the other selectors take microseconds or better themselves.
        epoll = getattr(selectors, "EpollSelector", ())
        fd = selector.fileno() if isinstance(selector, epoll) else None
        # On the selector itself, which stays what it is for everybody who looks at it.
        selector.select = Sleep(self, selector.select, fd)  # type: ignore[method-assign]

    def _wake_for_events_only(self) -> None:
        """Undoes `_sleep_on_wheel`."""
        vars(self._selector).pop("select", None)


class EventLoop(WheelTimers, asyncio.SelectorEventLoop):
    """asyncio's selector event loop with its timers on a timing wheel.

    `call_later`, `call_at` and what is built on them (`asyncio.sleep`, `asyncio.timeout`, `asyncio.wait_for`) take the
    same time with ten timers and with a million. A cancelled timer is gone at once, and timers fire within a tenth of
    a millisecond of their time on an idle machine, never before it. However many timers fall due together, sockets
    are looked at after every 256 of them. Everything else is asyncio's own.

    With `clock="virtual"` the loop's clock stands still while there is anything to do and jumps to the next timer when
    there is not: a test that sleeps for an hour takes no time. See `advance`.

    Args:
        selector: as for `asyncio.SelectorEventLoop`; None for the system's best.
        clock: "monotonic" for the system's clock, `time.monotonic()`; "virtual" for one that starts at 0.

    Raises:
        ValueError: there is no such clock.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector | None = None,
        *,
        clock: Literal["monotonic", "virtual"] = "monotonic",
    ) -> None:
        if clock not in ("monotonic", "virtual"):
            raise ValueError(f'the clock is "monotonic" or "virtual", not {clock!r}')
        # Calls on executors and subprocesses that go on, by which a virtual clock must wait.
        self._outside = 0
        self._virtual = clock == "virtual"
        if self._virtual:
            self._set_clock(0.0)
        super().__init__(selector)
        self._sleep_on_wheel()

    def close(self) -> None:
        """Closes the loop and forgets its timers. Does nothing to a closed loop.

        Raises:
            RuntimeError: the loop is running.
        """
        if not self.is_running() and not self.is_closed():
            self._wake_for_events_only()
        super().close()

    def advance(self, seconds: float) -> None:
        """Moves a virtual clock forward; timers that fall due by it fire in the turns of the loop that follow.

        What waits in between, one sleep after another, is better awaited: `await asyncio.sleep(seconds)` lets every
        timer on the way fire at its own time.

        Args:
            seconds: by how much, from 0 on.

        Raises:
            RuntimeError: the loop's clock is not virtual.
            ValueError: `seconds` is negative or not a number.
        """
        if not self._virtual:
            raise RuntimeError('only a clock="virtual" can be advanced')
        if not seconds >= 0:
            raise ValueError(f"the clock goes forward: {seconds} s")
        self._set_clock(self.time() + seconds)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[_Args]], _T], *args: Unpack[_Args]
    ) -> asyncio.Future[_T]:
        """Calls `func(*args)` in a thread or process of `executor`; see `asyncio.loop.run_in_executor`."""
        call = super().run_in_executor(executor, func, *args)
        if self._virtual:
            # What takes real time must not lose against a clock that takes none.
            self._outside += 1
            call.add_done_callback(self._came_back)
        return call

    def _came_back(self, _call: asyncio.Future[Any]) -> None:
        self._outside -= 1

    def _is_waiting(self) -> bool:
        """Whether a virtual clock has to wait for events before it may jump."""
        return self._outside > 0


def new_event_loop() -> EventLoop:
    """A new event loop, for `asyncio.Runner(loop_factory=...)` and its like. The caller closes it."""
    return EventLoop()
