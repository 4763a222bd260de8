"""Timers and priorities for any Python objects, in queues that never read a clock.

- `Wheel`: timers in a hierarchical timing wheel. Arming, cancelling and re-arming are O(1).
- `Heap`: timers in a heap. The same operations are O(log n).
- `PriorityQueue`: a priority queue whose entries can be changed and removed.

Deadlines are numbers in a unit of your choice: seconds of `time.monotonic()`, milliseconds, ticks.
A float is returned unchanged. Other numbers are converted to floats. If no float equals a number
(an integer beyond 2**53, for example), a deadline rounds up and a `now` rounds down, so no timer
fires before its deadline. NaN raises ValueError.

`insert` and `push` return a key, an `int` that a queue never reuses: after the timer has fired or
was removed, the key is stale, and methods raise KeyError for it. Use a key only with its own queue.

Threads may share a queue; every method is atomic, and so is each step of a loop over `due`. The
garbage collector visits values and priorities, so it frees a reference cycle through a queue.
"""

from __future__ import annotations

from typing import NewType

from punctual._punctual import Heap, PriorityQueue, Wheel

__all__ = ["Heap", "Key", "PriorityQueue", "Wheel"]

Key = NewType("Key", int)
"""The result of `insert` and `push`: identifies a timer or an entry of that queue."""
