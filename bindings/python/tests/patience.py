"""Support for the tests of both packages: waiting, and programs that end by themselves."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable

PATIENCE = 30
"""Time limit in seconds for operations that take no time on an idle machine."""


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


# A shell without job control makes its background processes ignore SIGINT. With SIGINT ignored,
# tests of Ctrl-C, including CPython's own, would wait forever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
