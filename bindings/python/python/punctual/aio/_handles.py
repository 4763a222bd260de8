"""The Python part of a timer handle: reports the exception of a callback, as asyncio does."""

from __future__ import annotations

import inspect
from asyncio import AbstractEventLoop, TimerHandle, format_helpers
from typing import Any

_describe: Any = getattr(format_helpers, "_format_callback_source")  # noqa: B009
# Newer versions of Python omit arguments from messages unless the loop is in debug mode.
_HIDES_ARGUMENTS = "debug" in inspect.signature(_describe).parameters


def report(handle: TimerHandle, exception: BaseException) -> None:
    """Call the loop's exception handler for the callback of `handle`."""
    timer: Any = handle
    loop: AbstractEventLoop = timer._loop
    options = {"debug": loop.get_debug()} if _HIDES_ARGUMENTS else {}
    callback = _describe(timer._callback, timer._args, **options)
    context: dict[str, Any] = {
        "message": f"Exception in callback {callback}",
        "exception": exception,
        "handle": handle,
    }
    if timer._source_traceback:
        context["source_traceback"] = timer._source_traceback
    loop.call_exception_handler(context)
