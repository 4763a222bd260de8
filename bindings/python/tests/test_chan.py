"""Channels: the guarantees of Go's specification and pygolang, garbage collection, races."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
import weakref
from collections import Counter
from typing import Any

import punctual
import pytest
from conftest import Go, until_receivers_wait, until_senders_wait
from patience import until
from punctual import PanicError, chan, default, nilchan, select


class Thing:
    """An object whose release can be observed."""


def test_unbuffered_send_waits_for_its_receiver(go: Go) -> None:
    c: chan[str] = chan()
    answers: chan[str] = chan()
    go(lambda: answers.send(c.recv() + "!"))
    c.send("hello")
    assert answers.recv() == "hello!"
    assert (len(c), len(answers)) == (0, 0)


def test_sender_without_buffer_waits_until_received(go: Go) -> None:
    c: chan[int] = chan()
    steps: list[str] = []

    def send() -> None:
        c.send(1)
        steps.append("sent")

    sender = go(send)
    until_senders_wait(c)
    steps.append("receives")
    assert c.recv() == 1
    sender.join()
    assert steps == ["receives", "sent"]


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_buffer_is_a_queue(size: int) -> None:
    c: chan[int] = chan(size)
    for _ in range(3):
        for i in range(size):
            assert len(c) == i
            c.send(i)
        assert select((c.send, -1), default) == (1, None)
        assert [c.recv_() for _ in range(size)] == [(i, True) for i in range(size)]
    assert select(c.recv, default) == (1, None)


def test_a_waiting_sender_fills_free_room(go: Go) -> None:
    c: chan[int] = chan(2)
    c.send(0)
    c.send(1)
    sender = go(lambda: c.send(2))
    until_senders_wait(c)
    assert [c.recv(), c.recv(), c.recv()] == [0, 1, 2]
    sender.join()


def test_closed_channel_returns_buffered_items_then_none() -> None:
    c: chan[Any] = chan(2)
    c.send(1)
    c.close()
    assert c.recv_() == (1, True)
    assert c.recv_() == (None, False)
    assert c.recv() is None
    assert select(c.recv_) == (0, (None, False))
    assert select(c.recv) == (0, None)


def test_sending_and_closing_a_closed_channel_panics() -> None:
    c: chan[int] = chan(1)
    c.close()
    with pytest.raises(PanicError, match=r"^send on closed channel$"):
        c.send(1)
    with pytest.raises(PanicError, match=r"^send on closed channel$"):
        select((c.send, 1))
    with pytest.raises(PanicError, match=r"^close of closed channel$"):
        c.close()
    assert issubclass(PanicError, RuntimeError)


def test_close_wakes_all_waiting_threads(go: Go) -> None:
    empty: chan[int] = chan()
    full: chan[int] = chan()
    results: chan[object] = chan(6)

    def send() -> None:
        with pytest.raises(PanicError, match="send on closed channel"):
            full.send(1)
        results.send("panic")

    for _ in range(2):
        go(lambda: results.send(empty.recv_()))
        go(lambda: results.send(select(empty.recv_, nilchan.recv)))
        go(send)
    until_receivers_wait(empty, 4)
    until_senders_wait(full, 2)
    empty.close()
    full.close()
    got = Counter(results.recv() for _ in range(6))
    assert got == {(None, False): 2, (0, (None, False)): 2, "panic": 2}


def test_iteration_ends_with_the_channel(go: Go) -> None:
    c: chan[int] = chan()

    def send() -> None:
        for i in range(5):
            c.send(i)
        c.close()

    go(send)
    assert list(c) == [0, 1, 2, 3, 4]
    assert list(c) == []


def test_receivers_are_served_in_order(go: Go) -> None:
    c: chan[str] = chan()
    got: list[tuple[int, str]] = []
    threads = []
    for i in range(4):

        def receive(i: int = i) -> None:
            got.append((i, c.recv()))

        threads.append(go(receive))
        until_receivers_wait(c, i + 1)
    for thread, item in zip(threads, "abcd"):
        c.send(item)
        thread.join()
    assert got == [(0, "a"), (1, "b"), (2, "c"), (3, "d")]


def test_nil_channel() -> None:
    assert repr(nilchan) == "nilchan"
    assert len(nilchan) == 0
    with pytest.raises(PanicError, match=r"^close of nil channel$"):
        nilchan.close()
    assert select(nilchan.recv, nilchan.recv_, (nilchan.send, 1), default) == (3, None)


def test_nil_channel_blocks_forever() -> None:
    begun: list[int] = []
    ended: list[int] = []
    waits: list[Any] = [
        nilchan.recv,
        nilchan.recv_,
        lambda: nilchan.send(1),
        lambda: next(nilchan),
        select,
        lambda: select(nilchan.recv, (nilchan.send, 1)),
    ]
    for wait in waits:

        def run(wait: Any = wait) -> None:
            begun.append(1)
            wait()
            ended.append(1)

        threading.Thread(target=run, daemon=True).start()
    until(lambda: len(begun) == len(waits))
    # An operation that begins later is served, so the blocked threads had their chance.
    c: chan[int] = chan()
    threading.Thread(target=lambda: c.send(1), daemon=True).start()
    assert c.recv() == 1
    assert ended == []


DTYPES: list[tuple[Any, Any, Any]] = [
    ("object", "abc", None),
    ("C.structZ", None, None),
    ("C.bool", True, False),
    ("C.int", 4, 0),
    ("C.double", 3.14, 0.0),
]


@pytest.mark.parametrize(("dtype", "item", "zero"), DTYPES)
def test_dtype(dtype: str, item: Any, zero: Any) -> None:
    c: chan[Any] = chan(1, dtype=dtype)
    c.send(item)
    got, ok = c.recv_()
    assert (got, type(got), ok) == (item, type(item), True)
    for other, wrong, _ in DTYPES:
        if "object" in (dtype, other) or dtype == other or (other, dtype) == ("C.int", "C.double"):
            continue
        with pytest.raises(TypeError, match="type mismatch: expect"):
            c.send(wrong)
        with pytest.raises(TypeError, match="type mismatch: expect"):
            select((c.send, wrong))
    c.close()
    got, ok = c.recv_()
    assert (got, type(got), ok) == (zero, type(zero), False)
    assert type(c.recv()) is type(zero)


def test_dtype_int_is_whole_and_32_bits() -> None:
    c: chan[Any] = chan(1, "C.int")
    c.send(4.0)
    assert repr(c.recv()) == "4"
    with pytest.raises(TypeError, match="expect int, got float"):
        c.send(4.5)
    with pytest.raises(OverflowError):
        c.send(2**31)


def test_dtype_double_accepts_numbers() -> None:
    class Half:
        def __float__(self) -> float:
            return 0.5

    class Broken:
        def __float__(self) -> float:
            raise ZeroDivisionError

    c: chan[Any] = chan(1, float)
    c.send(Half())
    assert c.recv() == 0.5
    with pytest.raises(ZeroDivisionError):
        c.send(Broken())
    with pytest.raises(TypeError, match="expect float, got str"):
        c.send("1")


def test_dtype_arguments() -> None:
    class Special:
        dtype = "C.int"

    assert repr(chan(3, Special)) == "<chan of C.int: 0 of 3 buffered>"
    with pytest.raises(TypeError, match=r"^pychan: invalid dtype: 'BadType'$"):
        chan(dtype="BadType")
    with pytest.raises(ValueError, match="negative"):
        chan(-1)
    with pytest.raises(OverflowError):
        chan(2**32)


def test_repr() -> None:
    c: chan[int] = chan(2)
    c.send(1)
    assert repr(c) == "<chan of object: 1 of 2 buffered>"
    c.close()
    assert repr(c) == "<chan of object: 1 of 2 buffered, closed>"
    assert repr(chan.nil("C.double")) == "chan.nil('C.double')"
    assert repr(default) == "default"


def test_equality_and_hash() -> None:
    a: chan[int] = chan()
    b: chan[int] = chan()
    assert a == a
    assert a != b
    assert a != None  # noqa: E711
    assert {a: 1, b: 2}[b] == 2
    for dtype, _, _ in DTYPES:
        nil = chan.nil(dtype)
        assert nil is chan.nil(dtype)
        assert (nil is nilchan) == (dtype == "object")
        assert nil == nilchan
        assert nilchan == nil
        assert hash(nil) == hash(nilchan)
        assert nil != a
        for other, _, _ in DTYPES:
            same = dtype == other or "object" in (dtype, other)
            assert (nil == chan.nil(other)) is same


def test_names() -> None:
    assert (chan.__module__, chan.__qualname__) == ("punctual", "chan")
    assert repr(chan[int]) == "punctual.chan[int]"
    assert pickle.loads(pickle.dumps(default)) is copy.copy(default) is default
    with pytest.raises(TypeError):
        type("Sub", (chan,), {})
    assert punctual.nilchan is nilchan


def test_buffered_objects_are_freed_with_their_channel() -> None:
    c: chan[Thing] | None = chan(3)
    assert c is not None
    things = [Thing(), Thing()]
    seen = [weakref.ref(thing) for thing in things]
    for thing in things:
        c.send(thing)
    del thing, things
    gc.collect()
    assert all(thing() for thing in seen)
    c = None
    assert not any(thing() for thing in seen)


@pytest.mark.parametrize("recycled", [False, True])
@pytest.mark.parametrize("size", [1, 5])
def test_cycle_through_a_channel_is_freed(size: int, recycled: bool) -> None:
    if recycled:
        chan(size)  # its memory is used again
    c: chan[Any] = chan(size)
    assert gc.is_tracked(c)
    thing = Thing()
    thing.channel = c  # type: ignore[attr-defined]
    seen = weakref.ref(thing)
    c.send(thing)
    c.send(c) if size > 1 else None
    del c, thing
    assert seen() is not None
    gc.collect()
    assert seen() is None


def test_no_reference_is_kept() -> None:
    c: chan[object] = chan(1)
    item = object()
    before = sys.getrefcount(item)
    for _ in range(10):
        c.send(item)
        c.recv()
        select((c.send, item), c.recv)
        c.recv_()
        select((nilchan.send, item), default)
    c.close()
    with pytest.raises(PanicError):
        c.send(item)
    with pytest.raises(AttributeError):
        select((c.send, item), "no case")  # type: ignore[arg-type]
    assert sys.getrefcount(item) == before


def test_channel_is_small() -> None:
    assert sys.getsizeof(chan()) <= 64


def test_ping_pong(go: Go) -> None:
    c: chan[str] = chan()

    def answer() -> None:
        for i in range(1000):
            assert c.recv() == f"ping {i}"
            c.send(f"pong {i}")

    go(answer)
    for i in range(1000):
        c.send(f"ping {i}")
        assert c.recv() == f"pong {i}"


@pytest.mark.parametrize("size", [0, 1, 7])
def test_every_item_arrives_once(go: Go, size: int) -> None:
    threads, each = 4, 500
    c: chan[int] = chan(size)
    done: chan[Counter[int]] = chan(threads)

    def send(first: int) -> None:
        for i in range(first, first + each):
            c.send(i)

    def receive() -> None:
        done.send(Counter(c))

    senders = [go(lambda first=i * each: send(first)) for i in range(threads)]
    for _ in range(threads):
        go(receive)
    for sender in senders:
        sender.join()
    c.close()
    total: Counter[int] = sum((done.recv() for _ in range(threads)), Counter())
    assert total == Counter(range(threads * each))


def test_collector_runs_while_threads_send(go: Go) -> None:
    c: chan[Any] = chan(2)

    def send() -> None:
        for i in range(2000):
            c.send([c, i])
        c.close()

    go(send)
    for i, item in enumerate(c):
        assert item == [c, i]
        if i % 50 == 0:
            gc.collect()
