"""Timers and priorities for any Python objects, in queues that never look at a clock.

- `Wheel`: timers in a hierarchical timing wheel. Arming, cancelling and re-arming take O(1).
- `Heap`: the same in a heap, in O(log n).
- `PriorityQueue`: a priority queue whose entries can be changed and removed.

Deadlines are numbers in whatever unit you like: seconds of `time.monotonic()`, milliseconds,
ticks. A float comes back as it was given; other numbers become floats, rounded up where no float
is equal (integers beyond 2**53), and a `now` is rounded down then, so nothing is due before its
deadline. NaN is refused.

What is put in is found again by its key, an `int` that is never used twice by one queue: a key
whose timer has fired or was removed is stale, and refused for good. It means nothing to another
queue.

The queues may be shared by threads; every method is one step to the others. A loop over `due` is
one step for each value. Values and priorities are seen by the garbage collector: a cycle through a
queue is freed.
"""

from __future__ import annotations

from typing import NewType

from punctual._punctual import Heap, PriorityQueue, Wheel

__all__ = ["Heap", "Key", "PriorityQueue", "Wheel"]

Key = NewType("Key", int)
"""What `insert` and `push` return: stands for a timer or an entry of that queue."""
