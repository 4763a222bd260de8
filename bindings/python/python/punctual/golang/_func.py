"""`func`, `defer`, `panic` and `recover`.

`func` wraps a function in `call`. `defer` and `recover` find the state of that call in the frames
of their callers: a deferred call belongs to the function whose body contains `defer`, not to the
thread. So it works in greenlets and in recursive functions; the body of a generator cannot defer.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, Union, overload

from punctual._punctual import PanicError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    _Method = Union[staticmethod[Any, Any], classmethod[Any, Any, Any]]
    _F = TypeVar("_F", bound=Union[Callable[..., Any], _Method])

__all__ = ["defer", "func", "panic", "recover"]


def panic(arg: object) -> NoReturn:
    """Raise `PanicError(arg)`."""
    raise PanicError(arg)


class _Calls:
    """The deferred calls of one call of a function."""

    def __init__(self) -> None:
        self.deferred: list[Callable[[], object]] = []
        self.error: BaseException | None = None
        """The exception that ends the function, unless a deferred call recovers it."""

    def unwind(self) -> None:
        """Run deferred calls, last first, until none is left or one has recovered the error.

        An exception of a deferred call replaces the error. The remaining calls run while that
        exception is handled, so Python chains the exceptions as usual.
        """
        failing = self.error is not None
        while self.deferred:
            call = self.deferred.pop()
            try:
                call()
            except BaseException as error:
                self.error = error
                self.unwind()
                if self.is_failing():
                    raise
                return
            if failing and self.error is None:
                return

    def is_failing(self) -> bool:
        """Return whether an error is left that no deferred call recovered, and forget it.

        The error's traceback references this object: forgetting the error breaks the cycle.
        """
        error, self.error = self.error, None
        return error is not None


@overload
def func(f: type) -> Callable[[Any], Any]: ...
@overload
def func(f: _F) -> _F: ...
def func(f: Any) -> Any:
    """Decorate a function so that its body may `defer` calls.

    `@func(cls)` also makes the function a method of the class `cls`. The function's name keeps the
    value that it had before in the surrounding scope, or becomes None.
    """
    if not isinstance(f, type):
        return _with_calls(f)
    scope = sys._getframe(1)

    def add_method(method: Any) -> Any:
        method = _with_calls(method)
        name = getattr(method, "__func__", method).__name__
        setattr(f, name, method)
        return scope.f_locals.get(name)

    return add_method


def _with_calls(f: Any) -> Any:
    if isinstance(f, (staticmethod, classmethod)):
        return type(f)(_with_calls(f.__func__))

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        calls = _Calls()
        try:
            result = f(*args, **kwargs)
        except BaseException as error:
            result = None
            calls.error = error
            calls.unwind()
            if calls.is_failing():
                raise
        # Outside `except`, so that the recovered error is not the `__context__` of later errors.
        while calls.deferred:
            calls.unwind()
        return result

    return call


def defer(f: Callable[[], object]) -> None:
    """Call `f()` when the calling function ends, whether it returns or raises.

    Deferred calls run in reverse order. The calling function must be decorated with `@func`:
    otherwise raises `PanicError`.
    """
    caller = sys._getframe(1)
    above = caller.f_back
    if above is None or above.f_code is not _CALL:
        panic(f"function {caller.f_code.co_name} uses defer, but not @func")
    _calls_of(above, "calls").deferred.append(f)


def recover() -> Any:
    """End a panic, or another exception, of the function that deferred the calling function.

    Returns the argument of the panic, or the exception. Returns None if the function is not ending
    with an exception, or if `recover` is not called directly by a deferred call.
    """
    above = sys._getframe(1).f_back
    if above is not None and above.f_code is _CALL:
        above = above.f_back  # The deferred function itself is decorated.
    if above is None or above.f_code is not _UNWIND:
        return None
    calls = _calls_of(above, "self")
    error, calls.error = calls.error, None
    return error.args[0] if type(error) is PanicError else error


def _calls_of(frame: FrameType, name: str) -> _Calls:
    calls: _Calls = frame.f_locals[name]
    return calls


_CALL = _with_calls(lambda: None).__code__
_UNWIND = _Calls.unwind.__code__
