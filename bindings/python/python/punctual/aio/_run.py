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
    """Run a coroutine on a new `EventLoop` and return its result: `asyncio.run` on another loop.

    Afterwards the tasks that are left are cancelled and waited for, and the loop is closed.

    `debug` turns debug mode on or off; None leaves it to `PYTHONASYNCIODEBUG`. `loop_factory` makes
    the loop: in a test perhaps `lambda: EventLoop(clock="virtual")`.

    Raises `RuntimeError` if a loop is running in this thread, `ValueError` if `main` is not a
    coroutine, and what `main` raises.
    """
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("punctual.aio.run() cannot be called from a running event loop")
    if sys.version_info >= (3, 11):
        with asyncio.Runner(debug=debug, loop_factory=loop_factory) as runner:
            return runner.run(main)
    else:
        # There `asyncio.run` takes the policy's loops only.
        return _run(main, debug, loop_factory)


def _run(
    main: Coroutine[Any, Any, _T],
    debug: bool | None,
    loop_factory: Callable[[], asyncio.AbstractEventLoop],
) -> _T:
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
    """Cancel what `main` left behind, and let it come to its end."""
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
            context = {
                "message": "unhandled exception during punctual.aio.run() shutdown",
                "exception": exception,
                "task": task,
            }
            loop.call_exception_handler(context)
