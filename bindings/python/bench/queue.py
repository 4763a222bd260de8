"""Queues of `punctual.queue` beside what programs use now: heapq, sched, sortedcontainers.

- heapq with lazy deletion: what is removed is marked, and skipped when its turn comes. As asyncio
  does it, the heap is built anew when more than half of it is dead.
- `sched.scheduler`, whose `cancel` looks through all events: it takes part with few timers only.
- sortedcontainers, if it is there: a `SortedList` of deadlines, whose `remove` finds by bisection.

Contenders take turns, round after round, in this process. Figures are nanoseconds an operation,
medians of the rounds with the lowest and the highest.
"""

from __future__ import annotations

import argparse
import gc
import heapq
import importlib
import itertools
import random
import sched
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Callable

from punctual.queue import Heap, PriorityQueue, Wheel

from bench.report import Measure, Report

_SPAN = 10_000.0
_FEW = 1_000


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each measurement [5]")
    parser.add_argument(
        "--live", type=int, default=1_000_000, help="the largest number of entries [1000000]"
    )
    parser.add_argument("--only", help="measure what has this in its name")


def run(options: argparse.Namespace) -> None:
    """Measure, and print."""
    report = Report(options.rounds, options.only)
    print(f"Python {sys.version.split()[0]}; {options.rounds} rounds; medians (lowest-highest)")
    for live in sorted({min(_FEW, options.live), options.live}):
        timers = _timers(live)
        _measure(report, f"timers: insert + remove, {live:,} live", live, timers, _Churn)
        _measure(report, f"timers: re-arm, {live:,} live", live, timers, _Move)
        _measure(report, f"timers: insert, then all fall due, {live:,} of them", 0, timers, _Due)
        entries = _priorities()
        _measure(report, f"priorities: push + pop, {live:,} waiting", live, entries, _PushPop)
        _measure(report, f"priorities: change, {live:,} waiting", live, entries, _Move)


@dataclass
class Queue:
    """What a contender does, by functions; keys are whatever its `insert` returns."""

    insert: Callable[[float, Any], Any]
    remove: Callable[[Any], object]
    # Changes the deadline or the priority.
    move: Callable[[Any, float], Any]
    # Whether the key stays the same then; else `move` returns the new one.
    stays: bool
    # Iterates over the values that are due at a time.
    due: Callable[[float], Iterator[Any]] | None = None
    # Takes the first out.
    pop: Callable[[], object] | None = None


def _timers(live: int) -> dict[str, Callable[[], Queue]]:
    queues: dict[str, Callable[[], Queue]] = {"Wheel": _wheel, "Heap": _heap, "heapq": _lazy}
    if live <= _FEW:
        queues["sched"] = _sched
    return _with_sorted(queues)


def _priorities() -> dict[str, Callable[[], Queue]]:
    return _with_sorted({"PriorityQueue": _priority_queue, "heapq": _lazy})


def _with_sorted(queues: dict[str, Callable[[], Queue]]) -> dict[str, Callable[[], Queue]]:
    try:
        sortedcontainers: Any = importlib.import_module("sortedcontainers")
    except ImportError:
        return queues
    return {**queues, "sortedcontainers": lambda: _Sorted(sortedcontainers.SortedList()).queue()}


# --- contenders ------------------------------------------------------------------------------


def _wheel() -> Queue:
    wheel = Wheel[int]()
    wheel.pop_due(0.0)  # where it begins
    return Queue(wheel.insert, wheel.remove, wheel.reset, True, due=wheel.due)


def _heap() -> Queue:
    heap = Heap[int]()
    return Queue(heap.insert, heap.remove, heap.reset, True, due=heap.due)


def _priority_queue() -> Queue:
    queue = PriorityQueue[float, int]()
    return Queue(queue.push, queue.remove, queue.change_priority, True, pop=queue.pop)


def _lazy() -> Queue:
    lazy = _Lazy()
    return Queue(lazy.insert, lazy.remove, lazy.move, False, lazy.due, lazy.pop)


class _Lazy:
    """The recipe of heapq's documentation, and the sweeps of asyncio."""

    def __init__(self) -> None:
        self._heap: list[list[Any]] = []
        self._numbers = itertools.count()
        self._dead = 0

    def insert(self, deadline: float, value: Any) -> list[Any]:
        entry = [deadline, next(self._numbers), value, True]
        heapq.heappush(self._heap, entry)
        return entry

    def remove(self, entry: list[Any]) -> Any:
        entry[3] = False
        self._dead += 1
        if self._dead > 100 and self._dead > len(self._heap) // 2:
            self._heap = [entry for entry in self._heap if entry[3]]
            heapq.heapify(self._heap)
            self._dead = 0
        return entry[2]

    def move(self, entry: list[Any], deadline: float) -> list[Any]:
        return self.insert(deadline, self.remove(entry))

    def pop(self) -> Any:
        while True:
            entry = heapq.heappop(self._heap)
            if entry[3]:
                return entry[2]
            self._dead -= 1

    def due(self, now: float) -> Iterator[Any]:
        heap = self._heap
        while heap and heap[0][0] <= now:
            entry = heapq.heappop(heap)
            if entry[3]:
                yield entry[2]
            else:
                self._dead -= 1


def _sched() -> Queue:
    clock = [0.0]
    scheduler = sched.scheduler(timefunc=lambda: clock[0])
    fired: list[int] = []

    def insert(deadline: float, value: int) -> sched.Event:
        return scheduler.enterabs(deadline, 0, fired.append, (value,))

    def move(event: sched.Event, deadline: float) -> sched.Event:
        scheduler.cancel(event)
        return insert(deadline, event.argument[0])

    def due(now: float) -> Iterator[int]:
        clock[0] = now
        scheduler.run(blocking=False)
        yield from fired
        fired.clear()

    return Queue(insert, scheduler.cancel, move, False, due=due)


@dataclass
class _Sorted:
    entries: Any

    def queue(self) -> Queue:
        numbers = itertools.count()
        entries = self.entries

        def insert(deadline: float, value: int) -> tuple[float, int, int]:
            entry = (deadline, next(numbers), value)
            entries.add(entry)
            return entry

        def move(entry: tuple[float, int, int], deadline: float) -> tuple[float, int, int]:
            entries.remove(entry)
            return insert(deadline, entry[2])

        def due(now: float) -> Iterator[int]:
            while entries and entries[0][0] <= now:
                yield entries.pop(0)[2]

        return Queue(insert, entries.remove, move, False, due, lambda: entries.pop(0))


# --- measurements ----------------------------------------------------------------------------


def _measure(
    report: Report,
    title: str,
    live: int,
    queues: dict[str, Callable[[], Queue]],
    kind: Callable[[Queue, list[Any]], Measure],
) -> None:
    """Fill a queue for each contender, and have them take turns."""
    if not report.wants(title):
        return
    contenders: dict[str, tuple[Measure, int]] = {}
    for name, make in queues.items():
        queue = make()
        random_of_all = random.Random(1)
        keys = [queue.insert(random_of_all.uniform(1, _SPAN), i) for i in range(live)]
        contenders[name] = (kind(queue, keys), max(live, 5_000))
    # What has been filled in is not the collector's business meanwhile.
    gc.freeze()
    report.compare(title, contenders)
    gc.unfreeze()


def _times(count: int) -> list[float]:
    """Deadlines for so many, the same for every contender."""
    random_of_round = random.Random(count)
    return [random_of_round.uniform(1, _SPAN) for _ in range(count)]


@dataclass
class _Churn:
    """The life of a timeout: armed, and removed after some hundred others have been armed."""

    queue: Queue
    _keys: list[Any]

    def __call__(self, count: int) -> float:
        insert, remove = self.queue.insert, self.queue.remove
        times = _times(count)
        begin = time.perf_counter_ns()
        recent = [insert(deadline, 0) for deadline in times[:100]]
        for n, deadline in enumerate(times):
            place = n % 100
            remove(recent[place])
            recent[place] = insert(deadline, n)
        for key in recent:
            remove(key)
        return (time.perf_counter_ns() - begin) / count


@dataclass
class _Move:
    """What is waited for shows signs of life: its timeout begins anew."""

    queue: Queue
    keys: list[Any]

    def __call__(self, count: int) -> float:
        keys, move, stays = self.keys, self.queue.move, self.queue.stays
        times = _times(count)
        places = [n * 7919 % len(keys) for n in range(count)]
        begin = time.perf_counter_ns()
        for place, deadline in zip(places, times):
            moved = move(keys[place], deadline)
            if not stays:
                keys[place] = moved
        return (time.perf_counter_ns() - begin) / count


@dataclass
class _Due:
    """Timers that are not removed: inserted, and due in a thousand steps of the clock."""

    queue: Queue
    _keys: list[Any]
    # Queues go by one clock for good.
    now: float = 0.0

    def __call__(self, count: int) -> float:
        insert, due = self.queue.insert, self.queue.due
        assert due is not None
        start = self.now
        times = [start + deadline for deadline in _times(count)]
        fired = 0
        begin = time.perf_counter_ns()
        for n, deadline in enumerate(times):
            insert(deadline, n)
        for step in range(1, 1001):
            for _ in due(start + step * _SPAN / 1000):
                fired += 1
        each = (time.perf_counter_ns() - begin) / count
        assert fired == count
        self.now = start + _SPAN
        return each


@dataclass
class _PushPop:
    """Work that comes and is taken by its urgency."""

    queue: Queue
    _keys: list[Any]

    def __call__(self, count: int) -> float:
        insert, pop = self.queue.insert, self.queue.pop
        assert pop is not None
        times = _times(count)
        begin = time.perf_counter_ns()
        for n, priority in enumerate(times):
            insert(priority, n)
            pop()
        return (time.perf_counter_ns() - begin) / count
