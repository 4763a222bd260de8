"""Support for tests: threads, and waiting until they block."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from patience import PATIENCE, until
from punctual import chan
from punctual._punctual import _waiting

Go = Callable[..., threading.Thread]


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


def until_receivers_wait(c: chan[Any], count: int = 1) -> None:
    """Waits until `count` receives wait on the channel; each case of a select counts."""
    until(lambda: _waiting(c)[0] == count)


def until_senders_wait(c: chan[Any], count: int = 1) -> None:
    """Waits until `count` sends wait on the channel."""
    until(lambda: _waiting(c)[1] == count)
