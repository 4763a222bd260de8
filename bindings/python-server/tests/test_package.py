"""The package as a whole: import, version, typing, and its names in the package `punctual`."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.resources import files

import punctual
import punctual.server
import punctual_server
import pytest

SUBINTERPRETER = """
import punctual_server
from _testcapi import run_in_subinterp
run_in_subinterp('''
try:
    import punctual_server
except ImportError as error:
    print("refused:", error)
''')
assert punctual_server.Server().url
"""


def test_version_equals_that_of_the_native_module() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", punctual_server.__version__)


def test_package_is_typed() -> None:
    assert files("punctual_server").joinpath("py.typed").is_file()


def test_the_package_of_the_timers_has_the_server_by_its_old_names() -> None:
    assert punctual.Server is punctual.server.Server is punctual_server.Server


def test_subinterpreters_are_refused() -> None:
    pytest.importorskip("_testcapi")
    shown = subprocess.run(
        [sys.executable, "-c", SUBINTERPRETER],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert shown.stdout.startswith("refused: punctual_server ")
