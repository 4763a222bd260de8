"""Garbage collection: cycles through queues are freed, and a `__del__` may use the queue."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any, Callable

import pytest
from punctual.queue import Heap, PriorityQueue, Wheel

KINDS: list[Callable[[], Any]] = [Wheel, Heap, PriorityQueue]


class Node:
    """A value that supports weak references and has arbitrary attributes."""

    refers_to: object = None


def put(queue: Any, number: float, value: object) -> Any:
    return (
        queue.push(number, value)
        if isinstance(queue, PriorityQueue)
        else queue.insert(number, value)
    )


@pytest.fixture(autouse=True)
def collected_by_hand() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("kind", KINDS)
def test_cycle_through_a_queue_is_freed(kind: Callable[[], Any]) -> None:
    queue = kind()
    node = Node()
    node.refers_to = queue
    put(queue, 1, node)
    put(queue, 2, queue)
    watches = [weakref.ref(node), weakref.ref(queue)]
    del node, queue
    assert all(watch() is not None for watch in watches)
    gc.collect()
    assert [watch() for watch in watches] == [None, None]


def test_cycle_through_a_priority_is_freed() -> None:
    class Rank(Node):
        def __lt__(self, other: object) -> bool:
            return False

    queue: PriorityQueue[Rank, None] = PriorityQueue()
    rank = Rank()
    rank.refers_to = queue
    queue.push(rank, None)
    watch = weakref.ref(rank)
    del rank, queue
    gc.collect()
    assert watch() is None


@pytest.mark.parametrize("kind", [Wheel, Heap])
def test_cycle_through_an_iterator_is_freed(kind: Callable[[], Any]) -> None:
    queue = kind()
    node = Node()
    node.refers_to = queue.due(0)
    queue.insert(1, node)
    watch = weakref.ref(node)
    del node, queue
    gc.collect()
    assert watch() is None


@pytest.mark.parametrize("kind", KINDS)
def test_referenced_values_are_kept(kind: Callable[[], Any]) -> None:
    queue = kind()
    key = put(queue, 1, Node())
    gc.collect()
    assert isinstance(queue[key], Node)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["remove", "pop", "clear", "due"])
def test_values_are_dropped_once_and_may_use_the_queue(kind: Callable[[], Any], way: str) -> None:
    queue = kind()
    dropped = []

    class Loud:
        def __init__(self, name: int) -> None:
            self.name = name

        def __del__(self) -> None:
            dropped.append(self.name)
            put(queue, 100, None)
            repr(queue)

    keys = [put(queue, n, Loud(n)) for n in range(10)]
    if way == "clear":
        queue.clear()
    elif way == "remove":
        for key in keys:
            queue.remove(key)
    elif way == "pop" or isinstance(queue, PriorityQueue):
        for _ in keys:
            queue.pop() if isinstance(queue, PriorityQueue) else queue.pop_due(50)
    else:
        for _value in queue.due(50):
            pass
        del _value
    assert sorted(dropped) == list(range(10))
    assert len(queue) == 10


@pytest.mark.parametrize("kind", KINDS)
def test_a_freed_queue_drops_its_values(kind: Callable[[], Any]) -> None:
    queue = kind()
    node = Node()
    put(queue, 1, node)
    watch = weakref.ref(node)
    del node
    assert watch() is not None
    del queue
    assert watch() is None


@pytest.mark.parametrize("kind", KINDS)
def test_values_dropped_by_clear_find_the_queue_empty(kind: Callable[[], Any]) -> None:
    queue = kind()
    seen: list[int] = []

    class Loud:
        def __del__(self) -> None:
            seen.append(len(queue))

    for n in range(3):
        put(queue, n, Loud())
    queue.clear()
    assert seen == [0, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_collections_during_operations(kind: Callable[[], Any]) -> None:
    """Each allocation may trigger a collection, which runs a `__del__` that uses the queue."""
    queue = kind()

    class Loud(Node):
        def __del__(self) -> None:
            put(queue, 5, None)
            len(queue)

    gc.set_threshold(1)
    gc.enable()
    try:
        for n in range(300):
            loud = Loud()
            loud.refers_to = loud
            del loud
            put(queue, n, [n])
            list(queue)
            queue.entries() if isinstance(queue, PriorityQueue) else queue.timers()
    finally:
        gc.set_threshold(700, 10, 10)
    assert len(queue) >= 300
