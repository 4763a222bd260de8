"""`make bench-python`: each module of this package that no other imports is one benchmark.

A benchmark has a docstring, whose first line stands in the list; `arguments(parser)`, which adds
its options; and `run(options)`, which measures and prints. Its peers are measured in the same run,
alternately.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
from collections.abc import Sequence

__all__ = ["main", "names"]

# What benchmarks share.
_SHARED = {"__main__", "report"}


def names() -> list[str]:
    """Tell the names of the benchmarks."""
    return sorted({module.name for module in pkgutil.iter_modules(__path__)} - _SHARED)


def main(argv: Sequence[str] | None = None) -> None:
    """Run one benchmark, or list them. `argv` are those of the program by default."""
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Measures one thing and its peers in the same run.",
    )
    commands = parser.add_subparsers(dest="benchmark", metavar="BENCHMARK", required=True)
    for name in names():
        module = importlib.import_module(f"{__name__}.{name}")
        text = (module.__doc__ or "").strip()
        first = text.partition("\n")[0].rstrip(".")
        command = commands.add_parser(
            name,
            help=first[:1].lower() + first[1:],
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.arguments(command)
        command.set_defaults(run=module.run)
    options = parser.parse_args(argv)
    options.run(options)
