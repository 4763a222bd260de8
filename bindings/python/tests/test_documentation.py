"""The examples in the READMEs and in docstrings."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import punctual
import punctual_embedded
import punctual_server
import pytest

PACKAGE = Path(__file__).parents[1]
# The project's pages exist only in a checkout.
READMES = [
    PACKAGE / "README.md",
    PACKAGE.parent / "python-server" / "README.md",
    PACKAGE.parent / "python-embedded" / "README.md",
    PACKAGE.parents[1] / "README.md",
    PACKAGE.parents[1] / "docs" / "embedding.md",
    PACKAGE.parents[1] / "docs" / "tutorial.md",
]
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def examples() -> Iterator[tuple[str, str]]:
    """Yields the Python blocks of the READMEs: a name with the line, and the code."""
    for readme in filter(Path.exists, READMES):
        text = readme.read_text()
        for block in re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, block.start()) + 1
            yield f"{readme.parent.name}/{readme.name}:{line}", block[1]


def run_as_doctest(name: str, text: str) -> None:
    test = doctest.DocTestParser().get_doctest(text, {"__name__": "__main__"}, name, None, 0)
    # Each failing example prints the expected and the actual output.
    runner = doctest.DebugRunner(verbose=False, optionflags=FLAGS)
    try:
        runner.run(test)
    except doctest.DocTestFailure as failure:
        pytest.fail(
            f"{name}: {failure.example.source}expected {failure.example.want}got {failure.got}"
        )
    except doctest.UnexpectedException as failure:
        raise failure.exc_info[1] from None


@pytest.mark.parametrize(("name", "code"), list(examples()))
def test_readme(name: str, code: str, tmp_path: Path) -> None:
    """Run a block: as a session if it has prompts, with pytest if it has tests, or as a program."""
    if ">>> " in code:
        run_as_doctest(name, code)
        return
    file = tmp_path / "test_example.py"
    file.write_text(code)
    how = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if "def test_" in code else []
    done = subprocess.run(
        [sys.executable, *how, str(file)], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, f"{name}\n{done.stdout}\n{done.stderr}"


def modules() -> Iterator[ModuleType]:
    for package in (punctual, punctual_server, punctual_embedded):
        yield package
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def documented() -> Iterator[tuple[str, object]]:
    """Yields modules, their exports, and the members of classes."""
    for module in modules():
        yield module.__name__, module
        for name in getattr(module, "__all__", []):
            item = getattr(module, name)
            if hasattr(item, "__supertype__"):
                continue  # a NewType, which has no docstring in Python 3.9
            yield f"{module.__name__}.{name}", item
            if isinstance(item, type):
                for member, value in vars(item).items():
                    if not member.startswith("_"):
                        yield f"{module.__name__}.{name}.{member}", value


@pytest.mark.parametrize(
    ("name", "item"), [pytest.param(*pair, id=pair[0]) for pair in documented()]
)
def test_docstrings(name: str, item: object) -> None:
    text = getattr(item, "__doc__", None)
    if inspect.isclass(item) or inspect.isroutine(item) or inspect.ismodule(item):
        assert text, f"{name} has no documentation"
    if isinstance(text, str) and ">>> " in text:
        run_as_doctest(name, text)
