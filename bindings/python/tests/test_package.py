"""The package as a whole: it imports, and says what it is."""

from __future__ import annotations

import re
from importlib.resources import files

import punctual


def test_version_is_that_of_the_native_module() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", punctual.__version__)


def test_package_is_typed() -> None:
    assert files("punctual").joinpath("py.typed").is_file()
