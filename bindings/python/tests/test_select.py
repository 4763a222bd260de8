"""`select`: the choice of a case, blocking, invalid cases."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest
from conftest import Go, until_receivers_wait, until_senders_wait
from patience import until
from punctual import PanicError, chan, default, nilchan, select


def buffered(*items: object) -> chan[Any]:
    c: chan[Any] = chan(max(1, len(items)))
    for item in items:
        c.send(item)
    return c


def test_result_of_each_kind_of_case() -> None:
    assert select(buffered("a").recv) == (0, "a")
    assert select(buffered("a").recv_) == (0, ("a", True))
    c: chan[Any] = chan(1)
    assert select((c.send, "x")) == (0, None)
    assert c.recv() == "x"
    assert select(c.recv, default) == (1, None)
    assert select(default, c.recv_) == (0, None)
    assert select(default) == (0, None)


def test_default_is_chosen_only_if_no_case_is_ready() -> None:
    for _ in range(100):
        assert select(default, buffered(1).recv) == (1, 1)


def test_choice_among_ready_cases_is_fair() -> None:
    channels = [buffered(*range(2000)) for _ in range(4)]
    room: chan[int] = chan(4000)
    picked = Counter(
        select(*(c.recv for c in channels), (room.send, 0), nilchan.recv)[0] for _ in range(2000)
    )
    # The expected count is 400 each; the bounds are eight standard deviations away.
    assert set(picked) == {0, 1, 2, 3, 4}
    assert all(250 < times < 550 for times in picked.values())


def test_ready_cases_are_equally_likely_beside_one_that_is_not() -> None:
    a, b, empty = buffered(*range(1000)), buffered(*range(1000)), buffered()
    picked = Counter(select(empty.recv, a.recv, b.recv)[0] for _ in range(1000))
    # The first ready case after a random start would be `a` twice as often as `b`.
    assert all(370 < picked[i] < 630 for i in (1, 2))


def test_waits_for_the_first(go: Go) -> None:
    a: chan[str] = chan()
    b: chan[str] = chan()
    go(lambda: until_receivers_wait(b), lambda: b.send("b"))
    assert select(a.recv, b.recv_, nilchan.recv) == (1, ("b", True))
    go(lambda: until_senders_wait(a), lambda: a.recv())
    assert select((a.send, "a"), b.recv) == (0, None)


def test_an_ended_select_leaves_no_waiters(go: Go) -> None:
    """A select that has ended no longer sends or receives."""
    a: chan[Any] = chan()
    b: chan[Any] = chan()
    for i in range(200):
        go(lambda i=i: b.send(i))
        assert select(a.recv, (a.send, "no"), b.recv) == (2, i)
        assert select(a.recv, default) == (1, None)
        assert select((a.send, 0), default) == (1, None)


def test_a_select_does_not_complete_itself() -> None:
    c: chan[int] = chan()
    assert select((c.send, 1), c.recv, default) == (2, None)
    over = threading.Event()

    def run() -> None:
        select((c.send, 1), c.recv)
        over.set()

    threading.Thread(target=run, daemon=True).start()
    until_receivers_wait(c)
    until_senders_wait(c)
    assert not over.is_set()
    assert c.recv() == 1
    assert over.wait(10)


def test_two_selects_complete_each_other(go: Go) -> None:
    a: chan[Any] = chan()
    b: chan[Any] = chan()

    def other() -> None:
        for i in range(1000):
            assert select((a.send, f"a{i}"), (b.send, "x")) == (0, None)
            assert select((a.send, "y"), b.recv) == (1, f"b{i}")

    go(other)
    for i in range(1000):
        assert select(a.recv, (b.send, "x")) == (0, f"a{i}")
        assert select((a.send, "y"), (b.send, f"b{i}")) == (1, None)


def test_send_and_receive_on_one_buffered_channel() -> None:
    c: chan[int] = chan(1)
    for i in range(100):
        expected = (0, None) if i % 2 == 0 else (1, i - 1)
        assert select((c.send, i), c.recv) == expected


def test_close_ends_the_wait(go: Go) -> None:
    c: chan[int] = chan()
    go(lambda: until_senders_wait(c), lambda: c.close())
    with pytest.raises(PanicError, match=r"^send on closed channel$"):
        select((c.send, 1))
    d: chan[int] = chan()
    go(lambda: until_receivers_wait(d), lambda: d.close())
    assert select(nilchan.recv, d.recv_) == (1, (None, False))


def test_many_threads_select_on_the_same_channels(go: Go) -> None:
    channels: list[chan[int]] = [chan(size) for size in (0, 1, 3)]
    quit_: chan[None] = chan()
    counts: chan[Counter[int]] = chan(4)
    threads, each = 4, 400

    def send(thread: int) -> None:
        for i in range(each):
            select(*((c.send, thread * each + i) for c in channels))

    def receive() -> None:
        seen: Counter[int] = Counter()
        while True:
            which, item = select(*(c.recv for c in channels), quit_.recv)
            if which == len(channels):
                break
            seen[item] += 1
        counts.send(seen)

    senders = [go(lambda thread=thread: send(thread)) for thread in range(threads)]
    for _ in range(4):
        go(receive)
    for sender in senders:
        sender.join()
    until(lambda: not any(len(c) for c in channels))
    quit_.close()
    total: Counter[int] = sum((counts.recv() for _ in range(4)), Counter())
    assert total == Counter(range(threads * each))


@pytest.mark.parametrize(
    "case",
    [
        print,
        [].append,
        buffered().close,
        (buffered().send,),
        (buffered().send, 1, 2),
        (buffered().recv, 1),
        ([].append, 1),
        buffered().send,
    ],
)
def test_invalid_cases(case: Any) -> None:
    ready = buffered(1)
    with pytest.raises(TypeError, match=r"^select: a "):
        select(ready.recv, case)
    assert len(ready) == 1, "the select had no effect"


@pytest.mark.parametrize("case", [None, "text", chan.recv])
def test_cases_that_are_not_methods(case: Any) -> None:
    ready = buffered(1)
    with pytest.raises(AttributeError, match="__self__"):
        select(ready.recv, case)
    assert len(ready) == 1, "the select had no effect"


def test_one_default_at_most() -> None:
    with pytest.raises(PanicError, match="multiple default"):
        select(default, default)


def test_many_cases() -> None:
    channels: list[chan[int]] = [chan(1) for _ in range(300)]
    channels[257].send(5)
    assert select(*(c.recv for c in channels)) == (257, 5)
