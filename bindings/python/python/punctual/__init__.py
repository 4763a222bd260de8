"""Timers, channels, queues of deadlines and an asyncio event loop.

- `punctual.time`: Go's timers: `now`, `sleep`, `Timer`, `Ticker`, `after`, `after_func`, `tick`.
- `punctual.chan`, `punctual.select`: Go's channels, into which timers send.
- `punctual.golang`: the names of pygolang: `go`, `func`, `defer`, `sync`, `context` and others.
- `punctual.queue`: `Wheel`, `Heap` and `PriorityQueue` for any Python objects.
- `punctual.aio`: an asyncio event loop with its timers on a wheel, and a virtual clock for tests.
- `punctual.jobs`: queues of jobs on a Punctual server, and workers for them.
- `punctual.Server`: the server of the package `punctual_server`, if that is installed.

Times and timeouts are floats of seconds; only the queues count in a unit of your choice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from punctual._punctual import PanicError, __version__, chan, default, nilchan, select

if TYPE_CHECKING:
    from punctual.server import Server as Server

# `Server` is not here: `from punctual import *` must work without the server.
__all__ = ["PanicError", "__version__", "chan", "default", "nilchan", "select"]


def __getattr__(name: str) -> object:
    if name == "Server":
        from punctual.server import Server

        return Server
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
