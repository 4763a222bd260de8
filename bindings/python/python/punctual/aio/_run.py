"""Running a coroutine on a loop of its own."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any, Callable, TypeVar

from punctual.aio._loop import EventLoop

if TYPE_CHECKING:
    from collections.abc import Coroutine

_T = TypeVar("_T")


def run(
    main: Coroutine[Any, Any, _T],
    *,
    debug: bool | None = None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = EventLoop,
) -> _T:
    """Runs a coroutine on a new `EventLoop` and returns its result: `asyncio.run` with another loop.

    Afterwards the tasks that are left are cancelled and waited for, and the loop is closed.

    Args:
        main: the coroutine.
        debug: whether the loop is in debug mode; None leaves that to `PYTHONASYNCIODEBUG`.
        loop_factory: makes the loop; `lambda: EventLoop(clock="virtual")` for tests.

    Raises:
        RuntimeError: a loop is running in this thread.
        ValueError: `main` is not a coroutine.
    """
    if sys.version_info >= (3, 11):
        if asyncio._get_running_loop() is not None:
            raise RuntimeError("punctual.aio.run() cannot be called from a running event loop")
        with asyncio.Runner(debug=debug, loop_factory=loop_factory) as runner:
            return runner.run(main)
    return _run(main, debug, loop_factory)


def _run(
    main: Coroutine[Any, Any, _T],
    debug: bool | None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> _T:
    """Python 3.9 and 3.10 have `asyncio.run` for loops of the policy only."""
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("punctual.aio.run() cannot be called from a running event loop")
    if not asyncio.iscoroutine(main):
        raise ValueError(f"a coroutine was expected, got {main!r}")
    loop = loop_factory()
    try:
        asyncio.set_event_loop(loop)
        if debug is not None:
            loop.set_debug(debug)
        return loop.run_until_complete(main)
    finally:
        try:
            _cancel_tasks(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


def _cancel_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Cancels what `main` left behind, and lets it come to its end."""
    tasks = asyncio.all_tasks(loop)
    if not tasks:
        return
    for task in tasks:
        task.cancel()

    async def ends() -> None:
        await asyncio.wait(tasks)

    loop.run_until_complete(ends())
    for task in tasks:
        exception = None if task.cancelled() else task.exception()
        if exception is not None:
            loop.call_exception_handler(
                {
                    "message": "unhandled exception while punctual.aio.run() shut down",
                    "exception": exception,
                    "task": task,
                }
            )
