"""Support for tests: threads, waiting until they block, programs that end by themselves."""

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

PATIENCE = 30
"""Time limit in seconds for operations that take no time on an idle machine."""


@pytest.fixture
def go() -> Iterator[Go]:
    """Runs functions in threads. At the end all threads must have ended without an exception."""
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
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a thread is stuck"
    if errors:
        raise errors[0]


def ends_silently(program: str, *options: str, timeout: float) -> None:
    """Checks that a program ends within `timeout` seconds, without an error or output."""
    ended = subprocess.run(
        [sys.executable, *options, "-c", program],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def until(condition: Callable[[], object]) -> None:
    """Waits until other threads make `condition` true."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the condition stays false"
        time.sleep(0)


def until_receivers_wait(c: chan[Any], count: int = 1) -> None:
    """Waits until `count` receives wait on the channel; each case of a select counts."""
    until(lambda: _waiting(c)[0] == count)


def until_senders_wait(c: chan[Any], count: int = 1) -> None:
    """Waits until `count` sends wait on the channel."""
    until(lambda: _waiting(c)[1] == count)


# A shell without job control makes its background processes ignore SIGINT. With SIGINT ignored,
# tests of Ctrl-C, including CPython's own, would wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
