"""`punctual.golang`, where pygolang's own tests (scripts/test-pygolang) do not look."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest
from conftest import Go, until_receivers_wait
from punctual.golang import PanicError, chan, context, defer, func, panic, recover, sync
from punctual.golang import go as start
from punctual.time import Ticker, VirtualTime


def test_an_exception_of_a_thread_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: chan[Any] = chan()
    monkeypatch.setattr(threading, "excepthook", lambda report: reports.send(report.exc_type))
    start(int, "no number")
    assert reports.recv() is ValueError


def test_panics_of_the_timers() -> None:
    with pytest.raises(PanicError, match=r"^ticker: dt <= 0$"):
        Ticker(0)


def test_a_decorated_function_recovers() -> None:
    log: list[Any] = []

    @func
    def rescue() -> None:
        defer(lambda: log.append("end of rescue"))
        log.append(recover())

    @func
    def work() -> str:
        defer(rescue)
        panic("broken")

    assert work() is None
    assert log == ["broken", "end of rescue"]


def test_recover_returns_other_exceptions() -> None:
    found: list[Any] = []

    @func
    def work() -> None:
        defer(lambda: found.append(recover()))
        raise KeyError("lost")

    work()
    assert repr(found) == "[KeyError('lost')]"


def test_recover_ignores_exceptions_of_callers() -> None:
    found: list[Any] = []

    @func
    def work() -> int:
        defer(lambda: found.append(recover()))
        return 5

    try:
        raise KeyError("of the caller")
    except KeyError:
        assert work() == 5
    assert found == [None]


def test_a_failure_leaves_no_cycle() -> None:
    class Local:
        pass

    @func
    def work() -> None:
        local = Local()
        locals_.append(weakref.ref(local))
        defer(lambda: None)
        raise KeyError

    locals_: list[Any] = []
    gc.disable()
    try:
        with pytest.raises(KeyError) as raised:
            work()
        del raised
        assert locals_[0]() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("unlock", [sync.Mutex().unlock, sync.Sema().release])
def test_unlocking_what_is_not_locked(unlock: Any) -> None:
    with pytest.raises(PanicError, match=r"^sync: "):
        unlock()


def test_readers_come_before_the_next_writer(go: Go) -> None:
    mutex = sync.RWMutex()
    order: chan[str] = chan(2)

    def write() -> None:
        mutex.Lock()
        order.send("writer")
        mutex.Unlock()

    def read() -> None:
        mutex.RLock()
        order.send("reader")
        mutex.RUnlock()

    mutex.Lock()
    go(write)
    while not mutex._waiting_writers:
        pass
    go(read)
    while not mutex._waiting_readers:
        pass
    until_receivers_wait(mutex._waiting_readers[0])
    mutex.Unlock()
    assert [order.recv(), order.recv()] == ["reader", "writer"]


def test_a_context_is_freed_when_it_is_canceled() -> None:
    root, cancel_root = context.with_cancel(context.background())
    for key in range(100):
        context.with_value(root, key, "value")
    child, cancel = context.with_cancel(context.with_value(root, "key", "value"))
    alive = weakref.ref(child)
    done = child.done()
    cancel()
    del child, cancel
    gc.collect()
    assert alive() is None
    assert done.recv_() == (None, False)
    cancel_root()


def test_a_waiting_channel_keeps_its_context() -> None:
    root, cancel = context.with_cancel(context.background())
    done = context.with_cancel(context.with_value(root, "key", "value"))[0].done()
    gc.collect()
    cancel()
    assert done.recv_() == (None, False)


def test_deadlines_follow_virtual_time() -> None:
    with VirtualTime() as clock:
        ctx, _ = context.with_timeout(context.background(), 60)
        clock.advance(59)
        assert ctx.err() is None
        clock.advance(1)
        assert ctx.err() is context.deadlineExceeded
        late, _ = context.with_deadline(context.background(), 30)
        clock.advance(0)
        assert late.err() is context.deadlineExceeded
