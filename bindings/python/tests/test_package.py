"""The package as a whole: import, version, typing."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.resources import files

import punctual
import pytest


def test_version_equals_that_of_the_native_module() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", punctual.__version__)


def test_package_is_typed() -> None:
    assert files("punctual").joinpath("py.typed").is_file()


SUBINTERPRETER = """
import punctual
from _testcapi import run_in_subinterp
run_in_subinterp('''
try:
    import punctual
except ImportError as error:
    print("refused:", error)
''')
punctual.chan(1).send(1)
"""


def test_subinterpreters_are_refused() -> None:
    pytest.importorskip("_testcapi")
    shown = subprocess.run(
        [sys.executable, "-c", SUBINTERPRETER],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert shown.stdout.startswith("refused: ")
    assert "subinterpreter" in shown.stdout


WITHOUT_THE_SERVER = """
import sys
sys.modules["punctual_server"] = None
from punctual import *
import punctual
try:
    punctual.Server
except ImportError as error:
    print(error)
"""


def test_the_server_is_a_package_of_its_own() -> None:
    shown = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_SERVER], capture_output=True, text=True, check=True
    )
    assert shown.stdout == "the server is a package of its own: pip install punctual-server\n"
