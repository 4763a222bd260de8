"""A Redis-compatible server inside this process, with a clock that tests can advance.

- `punctual_server.Server` is the server, for tests in place of mocks, and for programs that need no
  separate server.
- `Server.call` and `Server.client` run commands in this process, without a socket.
- `Server.command` adds a command that a function of Python runs.
- The fixtures `punctual_server` and `punctual_clock` are for pytest.
- `python -m punctual_server serve` runs the server as a program.

All times are floats of seconds.
"""

from punctual_server._punctual_server import __version__
from punctual_server.server import Client, CommandError, Invocation, Server

__all__ = ["Client", "CommandError", "Invocation", "Server", "__version__"]
