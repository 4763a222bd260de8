"""`run`: runs a coroutine on a new loop."""

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
    """Run a coroutine on a new `EventLoop` and return its result, like `asyncio.run`.

    Afterwards cancels the remaining tasks, waits for them and closes the loop.

    `debug` turns debug mode on or off; None leaves it to `PYTHONASYNCIODEBUG`. `loop_factory`
    creates the loop, for example `lambda: EventLoop(clock="virtual")` in a test.

    Raises `RuntimeError` if a loop is running in this thread, `ValueError` if `main` is not a
    coroutine, and any exception of `main`.
    """
    if asyncio._get_running_loop() is not None:
        raise RuntimeError("punctual.aio.run() cannot be called from a running event loop")
    if sys.version_info >= (3, 11):
        with asyncio.Runner(debug=debug, loop_factory=loop_factory) as runner:
            return runner.run(main)
    else:
        # `asyncio.run` of older versions accepts no loop factory, only loops of the policy.
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
    """Cancel the remaining tasks and wait for them."""
    tasks = asyncio.all_tasks(loop)
    if not tasks:
        return
    for task in tasks:
        task.cancel()

    async def wait() -> None:
        await asyncio.wait(tasks)

    loop.run_until_complete(wait())
    for task in tasks:
        exception = None if task.cancelled() else task.exception()
        if exception is not None:
            context = {
                "message": "unhandled exception during punctual.aio.run() shutdown",
                "exception": exception,
                "task": task,
            }
            loop.call_exception_handler(context)
