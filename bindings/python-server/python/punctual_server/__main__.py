"""`python -m punctual_server serve`: runs the server."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence

from punctual_server._punctual_server import SERVE_OPTIONS, __version__, serve

_SERVE = f"""\
usage: python -m punctual_server serve [redis.conf] [--name value ...]

Runs the server until SHUTDOWN, Ctrl-C or SIGTERM.

{SERVE_OPTIONS}
Examples:
  python -m punctual_server serve --port 7777 --notify-keyspace-events Ex
  python -m punctual_server serve /etc/redis/redis.conf --loglevel verbose
"""


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
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="arguments of the command"
    )
    return _serve(parser.parse_args(argv).arguments)


def _serve(arguments: list[str]) -> int:
    if any(argument in {"-h", "--help"} for argument in arguments[:1]):
        print(_SERVE, end="")
        return 0
    # The server installs handlers for SIGINT and SIGTERM. Python's own handler of SIGINT would
    # raise a KeyboardInterrupt after the server has ended.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        serve(arguments)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
