"""Locks and groups of tasks, with the names of pygolang's module `golang.sync`.

They work between threads, between greenlets, and between both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from punctual.golang import context
from punctual.golang._go import go
from punctual.golang._locks import Mutex, Once, RWMutex, Sema, WaitGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

__all__ = ["Mutex", "Once", "RWMutex", "Sema", "WaitGroup", "WorkGroup"]


class WorkGroup:
    """Runs tasks whose failure cancels the others.

    Each task gets a context that is derived from `ctx`. The context is canceled when a task raises
    an exception, and when `wait` returns. At the end of a `with` block, the group waits.
    """

    def __init__(self, ctx: context.Context) -> None:
        self._ctx, self._cancel = context.with_cancel(ctx)
        self._tasks = WaitGroup()
        self._mutex = Mutex()
        self._error: BaseException | None = None

    def go(self, f: Callable[..., object], /, *args: Any, **kwargs: Any) -> None:
        """Call `f(ctx, *args, **kwargs)` in a new thread or greenlet; see `punctual.golang.go`."""
        self._tasks.add(1)

        def task() -> None:
            try:
                f(self._ctx, *args, **kwargs)
            except BaseException as error:
                with self._mutex:
                    first = self._error is None
                    if first:
                        self._error = error
                if first:
                    self._cancel()
            finally:
                self._tasks.done()

        go(task)

    def wait(self) -> None:
        """Block until all tasks have ended. Raises the exception of the first task that failed."""
        self._tasks.wait()
        self._cancel()
        if self._error is not None:
            raise self._error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()
