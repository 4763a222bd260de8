"""Threads for tests, and how to know that they wait; programs that must end by themselves."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from punctual import chan
from punctual._punctual import _waiting

Go = Callable[..., threading.Thread]


@pytest.fixture
def go() -> Iterator[Go]:
    """Runs functions in threads of their own; at the end all must be over, and none have raised."""
    threads: list[threading.Thread] = []
    errors: list[BaseException] = []

    def go(*functions: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            try:
                for function in functions:
                    function()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        threads.append(thread)
        thread.start()
        return thread

    yield go
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive(), "a thread is stuck"
    if errors:
        raise errors[0]


def ends_in_silence(program: str, *options: str, timeout: float) -> None:
    """A program ends by itself, in so many seconds, without an error and with nothing to say."""
    ended = subprocess.run(
        [sys.executable, *options, "-c", program],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def until(condition: Callable[[], object]) -> None:
    """Lets other threads run until they have made it true."""
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end, "this never comes true"
        time.sleep(0)


def until_receivers_wait(c: chan[Any], count: int = 1) -> None:
    """Until that many receives wait on the channel; a select has one for each of its cases."""
    until(lambda: _waiting(c)[0] == count)


def until_senders_wait(c: chan[Any], count: int = 1) -> None:
    """Until that many sends wait on the channel."""
    until(lambda: _waiting(c)[1] == count)


# A shell without job control has what it starts in the background ignore SIGINT. All tests of
# Ctrl-C, CPython's own among them, would do so too, and wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
