"""Contexts: deadlines, cancellation and values for a task and its subtasks.

The names are those of pygolang's module `golang.context`. The contexts form a tree: a context is
canceled with each context that it is derived from.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from punctual._punctual import after_func, chan, nilchan, now
from punctual.golang._locks import Mutex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from punctual._punctual import Timer

__all__ = [
    "Context",
    "background",
    "canceled",
    "deadlineExceeded",
    "merge",
    "with_cancel",
    "with_deadline",
    "with_timeout",
    "with_value",
]

canceled: Exception = RuntimeError("context canceled")
"""`Context.err()` of a context that was canceled."""

deadlineExceeded: Exception = TimeoutError("deadline exceeded")  # noqa: N816 - pygolang's name
"""`Context.err()` of a context whose deadline has passed."""

# Guards `_err`, `_children` and `_timer` of all contexts. No thread blocks while it holds it.
_tree = Mutex()


class Context:
    """The deadline, the cancellation and the values of a task."""

    def __init__(self, *parents: Context) -> None:
        self._parents = parents

    def deadline(self) -> float | None:
        """Return the deadline, a time of `punctual.time.now`, or None."""
        deadline = min((parent._due() for parent in self._parents), default=math.inf)
        return None if math.isinf(deadline) else deadline

    def done(self) -> chan[None]:
        """Return the channel that is closed when the context is canceled; always the same one."""
        return self._parents[0].done() if self._parents else nilchan

    def err(self) -> Exception | None:
        """Return None, or after the cancellation `canceled` or `deadlineExceeded`."""
        return self._parents[0].err() if self._parents else None

    def value(self, key: object) -> object:
        """Return the value of this very key, or None. Keys are compared by identity."""
        values = (parent.value(key) for parent in self._parents)
        return next((value for value in values if value is not None), None)

    def _due(self) -> float:
        deadline = self.deadline()
        return math.inf if deadline is None else deadline

    def _cancelable(self) -> Iterator[_Cancelable]:
        """Yield the nearest contexts, this one or above, that have a channel of their own."""
        for parent in self._parents:
            yield from parent._cancelable()


class _Value(Context):
    def __init__(self, parent: Context, key: object, value: object) -> None:
        super().__init__(parent)
        self._key, self._value = key, value

    def value(self, key: object) -> object:
        return self._value if key is self._key else super().value(key)


class _Cancelable(Context):
    def __init__(self, *parents: Context, deadline: float = math.inf) -> None:
        super().__init__(*parents)
        self._deadline = min(deadline, *(parent._due() for parent in parents))
        self._done: chan[None] = chan(dtype="C.structZ")
        self._err: Exception | None = None
        self._timer: Timer | None = None
        # Contexts to cancel with this one. The references are strong: a thread may wait for the
        # channel of a context that nothing else references.
        self._children: set[_Cancelable] = set()
        self._above = [above for parent in parents for above in parent._cancelable()]
        with _tree:
            err = next((above._err for above in self._above if above._err is not None), None)
            if err is None:
                for above in self._above:
                    above._children.add(self)
                if self._deadline < min(parent._due() for parent in parents):
                    expire = functools.partial(self._cancel, deadlineExceeded)
                    self._timer = after_func(self._deadline - now(), expire)
        if err is not None:
            self._cancel(err)

    def deadline(self) -> float | None:
        return None if math.isinf(self._deadline) else self._deadline

    def done(self) -> chan[None]:
        return self._done

    def err(self) -> Exception | None:
        return self._err

    def _cancelable(self) -> Iterator[_Cancelable]:
        yield self

    def _cancel(self, err: Exception) -> None:
        """Cancel the context and those derived from it. Does nothing if it is canceled already."""
        ended: list[_Cancelable] = []
        with _tree:
            found = [self]
            while found:
                context = found.pop()
                if context._err is None:
                    context._err = err
                    ended.append(context)
                    found += context._children
                    context._children.clear()
                    for above in context._above:
                        above._children.discard(context)
        for context in ended:
            if context._timer is not None:
                context._timer.stop()
            context._done.close()


_background = Context()


def background() -> Context:
    """Return the context that has no deadline and no values, and is never canceled."""
    return _background


def _and_cancel(context: _Cancelable) -> tuple[Context, Callable[[], None]]:
    return context, functools.partial(context._cancel, canceled)


def with_cancel(parent: Context) -> tuple[Context, Callable[[], None]]:
    """Return a new context and a function that cancels it.

    Call the function when the task has ended: until then, `parent` references the context.
    """
    return _and_cancel(_Cancelable(parent))


def with_deadline(parent: Context, deadline: float) -> tuple[Context, Callable[[], None]]:
    """Like `with_cancel`, and the context is canceled at `deadline`, if not before.

    The deadline is a time of `punctual.time.now`.
    """
    return _and_cancel(_Cancelable(parent, deadline=deadline))


def with_timeout(parent: Context, timeout: float) -> tuple[Context, Callable[[], None]]:
    """Return `with_deadline(parent, now() + timeout)`."""
    return with_deadline(parent, now() + timeout)


def with_value(parent: Context, key: object, value: object) -> Context:
    """Return a context in which `key` has this value."""
    return _Value(parent, key, value)


def merge(parent1: Context, parent2: Context) -> tuple[Context, Callable[[], None]]:
    """Like `with_cancel`, with two parents.

    The context is canceled with either of them, has the earlier deadline, and the values of both;
    those of `parent1` take precedence.
    """
    return _and_cancel(_Cancelable(parent1, parent2))
