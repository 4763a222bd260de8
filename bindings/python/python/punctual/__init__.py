"""Deadlines, exact and nearly free: timers, channels, an asyncio loop, a Redis-compatible server.

- `punctual.queue`: `Wheel`, `Heap` and `PriorityQueue` for any Python objects.
- `punctual.Server`: the Redis-compatible server inside the process, with a clock that tests can
  move; `punctual_server` and `punctual_clock` for pytest.

Times are floats of seconds everywhere.
"""

from punctual._punctual import __version__
from punctual.server import Server

__all__ = ["Server", "__version__"]
