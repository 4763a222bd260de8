"""`python -m punctual_server serve`: replaces this process by the program `punctual-server`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from punctual_server import __version__, program


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code. `argv` defaults to the arguments of the program."""
    parser = argparse.ArgumentParser(
        prog="python -m punctual_server",
        description="A Redis-compatible server with exact deadlines.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="commands:\n"
        "  serve    a Redis-compatible server whose keys expire on time\n\n"
        "Run `python -m punctual_server COMMAND --help` for details.",
    )
    parser.add_argument("--version", action="version", version=f"punctual_server {__version__}")
    parser.add_argument("command", choices=("serve",), metavar="COMMAND", help="see below")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of the program"
    )
    arguments = parser.parse_args(argv).arguments
    try:
        path = program.find()
        os.execv(path, [path, *arguments])
    except OSError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
