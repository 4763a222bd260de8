"""`Wheel` and `Heap`: the same tests for both, mainly against a sorted list."""

from __future__ import annotations

import math
import random
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any, Union

import pytest
from punctual.queue import Heap, Key, Wheel

Timers = Union[Wheel[Any], Heap[Any]]


@pytest.fixture(params=[Wheel, Heap])
def timers(request: pytest.FixtureRequest) -> Timers:
    made: Timers = request.param()
    return made


class Model:
    """A simple timer queue: a dictionary that is sorted on demand."""

    def __init__(self) -> None:
        self.armed: dict[Key, tuple[float, int, object]] = {}
        self.armings = 0

    def arm(self, key: Key, deadline: float, value: object) -> None:
        self.armings += 1
        self.armed[key] = (deadline, self.armings, value)

    def first(self) -> tuple[Key, float, object] | None:
        if not self.armed:
            return None
        key = min(self.armed, key=lambda key: self.armed[key][:2])
        deadline, _, value = self.armed[key]
        return key, deadline, value


def check(timers: Timers, model: Model) -> None:
    first = model.first()
    assert timers.next_deadline() == (first[1] if first else None)
    assert len(timers) == len(model.armed)
    assert bool(timers) == bool(model.armed)


def deadlines(draw: random.Random, now: float) -> Iterator[float]:
    """Yields near, far, equal and past deadlines, adjacent floats, and the extreme floats."""
    while True:
        yield draw.choice(
            [
                now + draw.random(),
                now + draw.random() * 1e4,
                now + draw.randrange(4),
                now - draw.random() * 10,
                math.nextafter(now, math.inf),
                draw.choice([0.0, -0.0, -1.0, 5e-324, 1e308, math.inf, -math.inf]),
                draw.randrange(-(2**40), 2**40),
            ]
        )


@pytest.mark.parametrize("seed", range(12))
def test_random_operations_agree_with_a_sorted_list(timers: Timers, seed: int) -> None:
    draw = random.Random(seed)
    model = Model()
    keys: list[Key] = []
    now = draw.choice([0.0, 1e5, 1.7e9, -50.0])
    drawn = deadlines(draw, now)
    for step in range(1_500):
        operation = draw.choice(
            ["insert"] * 5 + ["remove", "reset", "reset", "pop", "pop", "time", "look"]
        )
        key = draw.choice(keys) if keys else None
        if operation == "insert":
            deadline = next(drawn)
            key = timers.insert(deadline, step)
            assert key not in model.armed
            keys.append(key)
            model.arm(key, deadline, step)
        elif operation == "remove" and key is not None:
            value = timers.remove(key, "stale")
            assert value == model.armed.pop(key, (0, 0, "stale"))[2]
        elif operation == "reset" and key is not None:
            deadline = next(drawn)
            if key in model.armed:
                timers.reset(key, deadline)
                model.arm(key, deadline, model.armed[key][2])
            else:
                with pytest.raises(KeyError):
                    timers.reset(key, deadline)
        elif operation == "pop":
            first = model.first()
            popped = timers.pop_due(now)
            if first is None or first[1] > now:
                assert popped is None
            else:
                assert popped == first[1:]
                del model.armed[first[0]]
        elif operation == "time":
            # The clock goes mostly forward, sometimes back.
            now += draw.choice([0.1, 1.0, 100.0, -5.0])
            drawn = deadlines(draw, now)
        elif operation == "look" and key is not None:
            assert (key in timers) == (key in model.armed)
            assert timers.get(key) == model.armed.get(key, (0, 0, None))[2]
            if key in model.armed:
                assert timers.deadline(key) == model.armed[key][0]
                assert timers[key] == model.armed[key][2]
        check(timers, model)
        if step % 500 == 499:
            assert sorted(timers) == sorted(model.armed)
            listed = {key: (deadline, value) for key, deadline, value in timers.timers()}
            assert listed == {key: (d, value) for key, (d, _, value) in model.armed.items()}
    in_order = sorted(model.armed.values())
    assert list(timers.due(math.inf)) == [value for _, _, value in in_order]
    assert len(timers) == 0


def test_keys_of_a_cleared_queue_stay_stale(timers: Timers) -> None:
    old = [timers.insert(n, n) for n in range(5_000)]
    timers.clear()
    assert len(timers) == 0
    assert timers.next_deadline() is None
    new = {timers.insert(n, n) for n in range(5_000)}
    assert new.isdisjoint(old)
    assert not any(key in timers for key in old)


def test_due_includes_timers_armed_meanwhile(timers: Timers) -> None:
    timers.insert(1, "a")
    timers.insert(3, "c")
    removed = timers.insert(4, "d")
    seen = []
    for value in timers.due(5):
        seen.append(value)
        if value == "a":
            timers.insert(2, "b")
            timers.insert(6, "later")
            timers.remove(removed)
    assert seen == ["a", "b", "c"]
    assert timers.next_deadline() == 6


def test_deadlines_are_floats_of_any_unit(timers: Timers) -> None:
    numbers: list[Any] = [1.1, 10**15, -3, True, Fraction(1, 4), Decimal("0.5")]
    for number in numbers:
        key = timers.insert(number, None)
        assert timers.deadline(key) == number
        assert type(timers.deadline(key)) is float
        timers.remove(key)


@pytest.mark.parametrize(
    "number", [2**53 + 1, 2**62 + 1, 10**18 + 1, 10**25 + 1, -(2**53) - 1, Fraction(1, 3)]
)
def test_numbers_without_an_equal_float_never_fire_early(timers: Timers, number: Any) -> None:
    timers.insert(number, "tea")
    deadline = timers.next_deadline()
    assert deadline is not None
    assert deadline >= number
    # At the greatest float below the number, the timer is not due.
    before = float(number) if float(number) < number else math.nextafter(float(number), -math.inf)
    assert timers.pop_due(before) is None
    assert timers.pop_due(number) is None  # rounded down
    assert timers.pop_due(deadline) == (deadline, "tea")


def test_integers_beyond_floats(timers: Timers) -> None:
    timers.insert(10**400, "never")
    timers.insert(-(10**400), "long ago")
    assert timers.pop_due(-(10**400)) is None
    assert timers.pop_due(0) == (-sys.float_info.max, "long ago")
    assert timers.pop_due(10**400) is None
    assert timers.pop_due(math.inf) == (math.inf, "never")


def test_zeros_are_equal(timers: Timers) -> None:
    timers.insert(0.0, "first")
    timers.insert(-0.0, "second")
    assert list(timers.due(-0.0)) == ["first", "second"]


def test_invalid_times_are_refused(timers: Timers) -> None:
    key = timers.insert(1, "tea")
    soon: Any = "soon"
    for call in (
        lambda x: timers.insert(x, 1),
        lambda x: timers.reset(key, x),
        timers.pop_due,
        timers.due,
    ):
        with pytest.raises(ValueError, match="NaN"):
            call(math.nan)
        with pytest.raises(TypeError):
            call(soon)
    assert timers.timers() == [(key, 1.0, "tea")]


def test_stale_keys(timers: Timers) -> None:
    key = timers.insert(1, "tea")
    assert timers.remove(key) == "tea"
    for use in (timers.remove, timers.deadline, timers.__getitem__):
        with pytest.raises(KeyError) as caught:
            use(key)
        assert caught.value.args == (key,)
    assert timers.remove(key, None) is None
    assert timers.get(key) is None
    assert timers.get(key, 7) == 7


@pytest.mark.parametrize("key", [-1, 2**64, -(2**70)])
def test_integers_that_are_not_keys_are_stale(timers: Timers, key: int) -> None:
    timers.insert(1, "tea")
    assert key not in timers
    assert timers.remove(Key(key), "none") == "none"
    with pytest.raises(KeyError):
        timers.reset(Key(key), 1)


def test_only_integers_are_keys(timers: Timers) -> None:
    wrong: Any = "tea"
    assert wrong not in timers
    assert None not in timers
    with pytest.raises(TypeError):
        timers.remove(wrong)
    with pytest.raises(TypeError):
        timers.get(wrong)


def test_repr(timers: Timers) -> None:
    name = type(timers).__name__
    assert repr(timers) == f"<{name} of 0 timers>"
    timers.insert(12.5, "tea")
    assert repr(timers) == f"<{name} of 1 timer, due at 12.5>"
    timers.insert(8, "tea")
    assert repr(timers) == f"<{name} of 2 timers, the next due at 8.0>"


def test_sizeof(timers: Timers) -> None:
    empty = sys.getsizeof(timers)
    for n in range(10_000):
        timers.insert(n, None)
    full = sys.getsizeof(timers)
    assert empty + 10_000 * 20 < full < empty + 10_000 * 80
    timers.clear()
    assert sys.getsizeof(timers) < full / 2


def test_classes_are_generic(timers: Timers) -> None:
    kind: Any = type(timers)
    assert kind[str].__origin__ is kind


def test_threads_share_a_queue(timers: Timers) -> None:
    each = 2_000

    def work() -> None:
        for n in range(each):
            kept, removed = timers.insert(n, "kept"), timers.insert(n, "removed")
            timers.reset(kept, each - n)
            timers.remove(removed)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(timers) == 4 * each
    assert list(timers.due(each)) == ["kept"] * 4 * each
