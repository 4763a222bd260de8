"""`punctual.aio` on the system's clock, end to end. These tests sleep."""

from __future__ import annotations

import asyncio
import selectors
import signal
import socket
import threading
import time
from typing import Any

import pytest
from punctual.aio import EventLoop

SELECTORS = [
    getattr(selectors, name)
    for name in ("EpollSelector", "PollSelector", "SelectSelector", "KqueueSelector")
    if hasattr(selectors, name)
]


@pytest.mark.parametrize("selector", SELECTORS)
def test_sleeps_end_and_never_early(selector: Any) -> None:
    async def main() -> list[float]:
        loop = asyncio.get_running_loop()
        late = []
        for milliseconds in (0.1, 0.7, 1.3, 3.9, 4.1, 7.77, 30.3):
            until = loop.time() + milliseconds / 1e3
            fired = loop.create_future()

            def fire(fired: asyncio.Future[float] = fired) -> None:
                fired.set_result(loop.time())

            loop.call_at(until, fire)
            late.append(await fired - until)
        return late

    loop = EventLoop(selector())
    try:
        late = loop.run_until_complete(main())
    finally:
        loop.close()
    assert min(late) >= 0


def test_events_end_a_sleep() -> None:
    async def main() -> float:
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.setblocking(False)
            begun = loop.time()
            # One event in each part of a sleep: in the `select`, and in the nap of the last 4 ms.
            for until in (3_600, 0.003):
                deadline = loop.call_later(until, print)
                sender = threading.Timer(0.001, theirs.send, (b"x",))
                sender.start()
                assert await asyncio.wait_for(loop.sock_recv(ours, 1), 60) == b"x"
                sender.join()
                deadline.cancel()
            return loop.time() - begun

    loop = EventLoop()
    try:
        assert loop.run_until_complete(main()) < 60
    finally:
        loop.close()


def test_other_threads_end_a_sleep() -> None:
    loop = EventLoop()
    try:
        loop.call_later(3_600, print)
        threading.Timer(0.005, loop.call_soon_threadsafe, (loop.stop,)).start()
        begun = time.monotonic()
        loop.run_forever()
        assert time.monotonic() - begun < 60
    finally:
        loop.close()


@pytest.mark.parametrize("deadline", [0.003, 3_600])
def test_signals_end_a_sleep(deadline: float) -> None:
    def interrupt(_signal: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    loop = EventLoop()
    try:
        # The timer repeats until the signal arrives at the right moment.
        def again() -> None:
            loop.call_later(deadline, again)

        # Set by a callback, so that no busy machine delivers the signal before the loop runs.
        loop.call_soon(signal.setitimer, signal.ITIMER_REAL, 0.01)
        again()
        with pytest.raises(KeyboardInterrupt):
            loop.run_forever()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        loop.close()


def test_signal_handlers_of_the_loop() -> None:
    loop = EventLoop()
    try:
        loop.call_later(3_600, print)
        loop.add_signal_handler(signal.SIGALRM, loop.stop)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        loop.run_forever()
        loop.remove_signal_handler(signal.SIGALRM)
    finally:
        loop.close()
