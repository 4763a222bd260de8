"""`go`: runs a function concurrently."""

from __future__ import annotations

import _thread
import sys
import threading
from typing import TYPE_CHECKING, Any

from punctual import _greenlets

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["go"]


def go(f: Callable[..., object], /, *args: Any, **kwargs: Any) -> None:
    """Call `f(*args, **kwargs)` in a new thread, and return at once.

    In a thread that runs gevent's hub, the call runs in a new greenlet. The program ends without
    waiting for the call. An exception of the call goes to `threading.excepthook`, in a greenlet to
    gevent's hub.
    """
    if _greenlets.hub() is None:
        # A `threading.Thread` would make the caller wait until the new thread runs.
        _thread.start_new_thread(_run, (f, args, kwargs))
    else:
        _greenlets.spawn(f, *args, **kwargs)


def _run(f: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    try:
        f(*args, **kwargs)
    except SystemExit:
        pass
    except BaseException:
        threading.excepthook(threading.ExceptHookArgs((*sys.exc_info(), None)))
