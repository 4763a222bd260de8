"""Run modules of CPython's own `test.test_asyncio` on `punctual.aio`.

    python cpython_asyncio.py test_events test_waitfor

Every loop that the tests create is ours: asyncio's names are replaced before the tests are
imported.
The exit code is 0 if all tests pass, 1 if not, and 77 if this Python has no such module.
"""

from __future__ import annotations

import asyncio
import asyncio.base_events
import asyncio.selector_events
import asyncio.unix_events
import importlib
import sys
import unittest
import warnings
from collections.abc import Iterator
from typing import Any
from unittest import mock

import punctual.aio
from punctual.aio._loop import WheelTimers

NO_SUCH_MODULE = 77

_HEAP = "puts handles into asyncio's private heap"
_CANCELLED = "counts the cancelled handles in asyncio's private heap"

# The skipped tests, each with its reason.
SKIPPED = {
    "BaseEventLoopTests.test__run_once": _HEAP,
    "BaseEventLoopTests.test__run_once_schedule_handle": _HEAP,
    "BaseEventLoopTests.test__run_once_cancelled_event_cleanup": _CANCELLED,
}

made = 0


class Loop(punctual.aio.EventLoop):
    """Replaces the selector event loop in the tests."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        global made
        made += 1
        super().__init__(*args, **kwargs)


class BaseLoop(WheelTimers, asyncio.base_events.BaseEventLoop):
    """Replaces the abstract loop, which has no selector, in the tests."""

    def __init__(self) -> None:
        global made
        made += 1
        super().__init__()

    def __setattr__(self, name: str, value: Any) -> None:
        # `_process_events` moves due timers. Many tests replace it because they have no events.
        if name == "_process_events":
            if isinstance(value, mock.Mock):
                value.side_effect = lambda _events: self._move_due()
            else:
                process = value

                def value(events: Any) -> None:
                    process(events)
                    self._move_due()

        super().__setattr__(name, value)


def install() -> None:
    """Make asyncio and its tests create our loops."""
    for module in (asyncio, asyncio.unix_events):
        for name in ("SelectorEventLoop", "EventLoop"):
            if hasattr(module, name):
                setattr(module, name, Loop)
    for module in (asyncio, asyncio.base_events):
        setattr(module, "BaseEventLoop", BaseLoop)  # noqa: B010
    if sys.version_info < (3, 16):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            # The name of the default policy depends on the version.
            policy: Any = asyncio.get_event_loop_policy()
            type(policy)._loop_factory = Loop
            asyncio.set_event_loop_policy(None)

    utils: Any = importlib.import_module("test.test_asyncio.utils")
    utils.TestLoop._process_events = lambda loop, _events: loop._move_due()


def each(suite: Any) -> Iterator[unittest.TestCase]:
    """Yield the tests of a suite."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test


def load(names: list[str]) -> unittest.TestSuite:
    """Load modules without the skipped tests."""
    tests = unittest.TestSuite()
    for name in names:
        module = importlib.import_module(f"test.test_asyncio.{name}")
        for test in each(unittest.defaultTestLoader.loadTestsFromModule(module)):
            reason = SKIPPED.get(".".join(test.id().split(".")[-2:]))
            if reason is None:
                tests.addTest(test)
            else:
                print(f"skipped: {test.id()}: {reason}")
    return tests


def main(names: list[str]) -> int:
    """Run modules and return the exit code."""
    try:
        install()
        tests = load(names)
    except ModuleNotFoundError as error:
        print(error)
        return NO_SUCH_MODULE
    result = unittest.TextTestRunner(verbosity=1).run(tests)
    print(f"{result.testsRun} tests, {made} loops on the wheel")
    return 0 if result.wasSuccessful() and made else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
