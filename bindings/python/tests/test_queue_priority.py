"""`PriorityQueue`: against a sorted list, with numbers and with objects; comparisons that raise."""

from __future__ import annotations

import functools
import math
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from punctual.queue import Key, PriorityQueue


@functools.total_ordering
class Version:
    """A priority class that counts comparisons and can be made to fail."""

    comparisons = 0
    fail_at: int | None = None

    def __init__(self, number: float) -> None:
        self.number = number

    def __lt__(self, other: Version) -> bool:
        Version.comparisons += 1
        if Version.comparisons == Version.fail_at:
            raise ZeroDivisionError
        return self.number < other.number

    def __eq__(self, other: object) -> bool:
        raise AssertionError("only < is used")

    __hash__ = None  # type: ignore[assignment]


def number(draw: random.Random) -> float:
    choices: list[float] = [
        draw.randrange(5),
        draw.random(),
        float(draw.randrange(5)),
        2**53 + draw.randrange(3),
        2.0**53,
        -(2**70),
        math.inf,
        -math.inf,
        -0.0,
        True,
    ]
    return draw.choice(choices)


def pair(draw: random.Random) -> tuple[int, str]:
    return draw.randrange(4), draw.choice("abc")


def version(draw: random.Random) -> Version:
    return Version(draw.randrange(6))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("priority", [number, pair, version])
@pytest.mark.parametrize("seed", range(6))
def test_random_operations_agree_with_a_sorted_list(
    seed: int, priority: Callable[[random.Random], Any], reverse: bool
) -> None:
    draw = random.Random(seed)
    queue: PriorityQueue[Any, int] = PriorityQueue(reverse=reverse)
    # Sorting is stable, reversed or not, so equal priorities keep the order of the list.
    model: list[tuple[Key, Any, int]] = []
    keys: list[Key] = []

    def by_priority() -> None:
        model.sort(key=lambda entry: entry[1], reverse=reverse)

    for step in range(1_500):
        operation = draw.choice(["push"] * 5 + ["pop", "pop", "remove", "change", "look"])
        key = draw.choice(keys) if keys else None
        at = next((n for n, entry in enumerate(model) if entry[0] == key), None)
        if operation == "push":
            new = priority(draw)
            key = queue.push(new, step)
            keys.append(key)
            model.append((key, new, step))
            by_priority()
        elif operation == "pop":
            if model:
                assert queue.peek()[1] == model[0][2]
                popped = queue.pop()
                assert popped[0] is model[0][1]
                assert popped[1] == model[0][2]
                del model[0]
            else:
                with pytest.raises(IndexError):
                    queue.pop()
        elif operation == "remove" and key is not None:
            assert queue.remove(key, -1) == (-1 if at is None else model.pop(at)[2])
        elif operation == "change" and key is not None:
            new = priority(draw)
            if at is None:
                with pytest.raises(KeyError):
                    queue.change_priority(key, new)
            else:
                _, old, value = model.pop(at)
                assert queue.change_priority(key, new) is old
                model.append((key, new, value))
                by_priority()
        elif operation == "look" and key is not None:
            assert (key in queue) == (at is not None)
            assert queue.get(key) == (None if at is None else model[at][2])
            if at is not None:
                assert queue.priority(key) is model[at][1]
                assert queue[key] == model[at][2]
        assert len(queue) == len(model)
    assert sorted(queue) == sorted(entry[0] for entry in model)
    assert {entry[0]: entry[2] for entry in queue.entries()} == {
        entry[0]: entry[2] for entry in model
    }
    assert [queue.pop()[1] for _ in range(len(queue))] == [value for _, _, value in model]


@pytest.mark.parametrize("operation", ["push", "pop", "remove", "change"])
def test_comparison_that_raises_changes_nothing(operation: str) -> None:
    draw = random.Random(operation)
    for _ in range(100):
        queue: PriorityQueue[Version, int] = PriorityQueue()
        keys = [queue.push(Version(draw.randrange(20)), n) for n in range(draw.randrange(3, 60))]
        for key in draw.sample(keys, len(keys) // 3):
            queue.remove(key)
        keys = list(queue)
        before = sorted((key, priority.number, value) for key, priority, value in queue.entries())
        Version.comparisons, Version.fail_at = 0, draw.randrange(1, 8)
        key = draw.choice(keys)
        try:
            if operation == "push":
                queue.push(Version(draw.randrange(20)), 0)
            elif operation == "pop":
                queue.pop()
            elif operation == "remove":
                queue.remove(key)
            else:
                queue.change_priority(key, Version(draw.randrange(20)))
        except ZeroDivisionError:
            after = sorted(
                (key, priority.number, value) for key, priority, value in queue.entries()
            )
            assert after == before
        finally:
            Version.fail_at = None
        popped = [queue.pop()[0].number for _ in range(len(queue))]
        assert popped == sorted(popped)


def test_incomparable_priorities() -> None:
    queue: PriorityQueue[Any, str] = PriorityQueue()
    queue.push(1, "one")
    with pytest.raises(TypeError, match="'<' not supported"):
        queue.push("2", "two")
    with pytest.raises(ValueError, match="NaN"):
        queue.push(math.nan, "no number")
    assert queue.pop() == (1, "one")


def test_a_pop_compares_about_once_per_level() -> None:
    draw = random.Random(1)
    queue: PriorityQueue[Version, int] = PriorityQueue()
    for n in range(4_096):
        queue.push(Version(draw.random()), n)
    Version.comparisons = 0
    for _ in range(1_000):
        queue.pop()
    assert Version.comparisons < 1_000 * 14


def test_a_comparison_may_not_use_its_queue() -> None:
    queue: PriorityQueue[Any, str] = PriorityQueue()

    class Meddler:
        def __lt__(self, other: object) -> bool:
            queue.pop()
            return True

    queue.push(Meddler(), "first")
    with pytest.raises(RuntimeError, match="comparison"):
        queue.push(Meddler(), "second")
    assert len(queue) == 1


def test_other_threads_wait_for_a_comparison() -> None:
    queue: PriorityQueue[Any, str] = PriorityQueue()
    compares = threading.Event()

    class Slow:
        def __lt__(self, other: object) -> bool:
            compares.set()
            time.sleep(0.05)
            return True

    queue.push(Slow(), "first")
    pushing = threading.Thread(target=lambda: queue.push(Slow(), "second"))
    pushing.start()
    compares.wait()
    assert len(queue) == 2  # only after the push
    pushing.join()


def test_keys_of_a_cleared_queue_stay_stale() -> None:
    queue: PriorityQueue[int, int] = PriorityQueue()
    old: set[Key] = set()
    for _ in range(3):
        new = {queue.push(n, n) for n in range(3_000)}
        assert new.isdisjoint(old)
        assert not any(key in queue for key in old)
        old |= new
        queue.clear()
    for _ in range(3):
        new = {queue.push(n, n) for n in range(3_000)}
        assert new.isdisjoint(old)
        old |= new
        while queue:
            queue.pop()


def test_empty_queue_and_repr() -> None:
    queue: PriorityQueue[Any, str] = PriorityQueue()
    assert repr(queue) == "<PriorityQueue of 0 entries>"
    for take in (queue.pop, queue.peek):
        with pytest.raises(IndexError, match="empty PriorityQueue"):
            take()
    queue.push("urgent", "a")
    assert repr(queue) == "<PriorityQueue of 1 entry, the first of priority 'urgent'>"
    queue.push("idle", "b")
    assert repr(queue) == "<PriorityQueue of 2 entries, the first of priority 'idle'>"
    assert sys.getsizeof(queue) > 2 * 32
