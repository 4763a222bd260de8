"""Runs the tests of pygolang 0.1 on `punctual.golang`; scripts/test-pygolang copies both together.

`golang` here is a package of the modules that pygolang's tests import: the names of
`punctual.golang`, and replacements for the internals of pygolang that these tests use.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

SOURCE = "compares tracebacks with the source lines of pygolang"
STRINGS = "tests pygolang's strings, which punctual.golang does not have"
SKIPPED = {
    "test_defer_excchain_traceback": SOURCE,
    "test_defer_excchain_dump": SOURCE,
    "test_defer_excchain_dump_ipython": SOURCE,
    "test_defer_excchain_dump_pytest": SOURCE,
    "test_strings": STRINGS,
    "test_strings_print": STRINGS,
    "test_qq": STRINGS,
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.name in SKIPPED:
            item.add_marker(pytest.mark.skip(reason=SKIPPED[item.name]))


# pygolang's tests use two functions that Python 3.11 has removed: one formats what the other
# returns.
if not hasattr(inspect, "getargspec"):

    def getargspec(f: Callable[..., Any]) -> tuple[str]:
        return (str(inspect.signature(f)),)

    def formatargspec(text: str) -> str:
        return text

    vars(inspect).update(getargspec=getargspec, formatargspec=formatargspec)
