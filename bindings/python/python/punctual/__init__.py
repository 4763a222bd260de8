"""Deadlines, exact and nearly free: timers, channels, an asyncio loop, a Redis-compatible server.

- `punctual.queue`: `Wheel`, `Heap` and `PriorityQueue` for any Python objects.

Times are floats of seconds everywhere.
"""

from punctual._punctual import __version__

__all__ = ["__version__"]
