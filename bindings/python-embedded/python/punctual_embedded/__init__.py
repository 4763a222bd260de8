"""A Redis-compatible server inside this process, with commands that are functions of Python.

- `punctual_embedded.Server` has the methods of `punctual_server.Server`, without a child process.
- `Server.call` and `Server.client` run commands in this process, without a socket.
- `Server.command` adds a command that a function of Python runs.
- The fixtures of `punctual_server` for pytest use this server if this package is installed.

All times are floats of seconds.
"""

from punctual_embedded._punctual_embedded import __version__
from punctual_embedded.server import Client, CommandError, Invocation, Server

__all__ = ["Client", "CommandError", "Invocation", "Server", "__version__"]
