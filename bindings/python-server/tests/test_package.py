"""The package as a whole: import, version, typing, and its names in the package `punctual`."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.resources import files

import punctual_server
import pytest
from punctual_server import program


def test_version_equals_that_of_the_program() -> None:
    shown = subprocess.run(
        [program.find(), "--version"], capture_output=True, text=True, check=True
    )
    assert re.fullmatch(r"\d+\.\d+\.\d+", punctual_server.__version__)
    assert shown.stdout.startswith(f"Punctual {punctual_server.__version__} ")


def test_package_is_typed() -> None:
    assert files("punctual_server").joinpath("py.typed").is_file()


def test_the_package_of_the_timers_has_the_server_by_its_old_names() -> None:
    punctual = pytest.importorskip("punctual")
    pytest.importorskip("punctual.server")
    assert punctual.Server is punctual.server.Server is punctual_server.Server


def test_the_plugin_of_pytest_imports_no_server() -> None:
    code = (
        "import sys, punctual_server.pytest_plugin\n"
        "print(*sorted(m for m in sys.modules if m.startswith(('punctual', 'asyncio'))))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["punctual_server", "punctual_server.pytest_plugin"]


def test_a_missing_program_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(program.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("sysconfig.get_path", lambda *_: "/nonexistent")
    with pytest.raises(FileNotFoundError, match=f"environment variable {program.VARIABLE}"):
        program.find()
    monkeypatch.setenv(program.VARIABLE, sys.executable)
    assert program.find() == sys.executable
