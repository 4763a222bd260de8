"""Timers, channels, an asyncio event loop and a Redis-compatible server.

- `punctual.time`: Go's timers: `now`, `sleep`, `Timer`, `Ticker`, `after`, `after_func`, `tick`.
- `punctual.chan`, `punctual.select`: Go's channels, into which timers send.
- `punctual.queue`: `Wheel`, `Heap` and `PriorityQueue` for any Python objects.
- `punctual.aio`: an asyncio event loop with its timers on a wheel, and a virtual clock for tests.
- `punctual.jobs`: queues of jobs on a Punctual server, and workers for them.
- `punctual.Server`: a Redis-compatible server inside the process, with a clock that tests can
  advance; the fixtures `punctual_server` and `punctual_clock` for pytest.

All times are floats of seconds.
"""

from punctual._punctual import PanicError, __version__, chan, default, nilchan, select
from punctual.server import Server

__all__ = ["PanicError", "Server", "__version__", "chan", "default", "nilchan", "select"]
