"""A Redis-compatible server as a child process, with a clock that tests can advance.

- `punctual_server.Server` starts the program `punctual-server`, which is part of this package.
- `Server.call` and `Server.client` run commands without a client library.
- The fixtures `punctual_server` and `punctual_clock` are for pytest.
- `python -m punctual_server serve` is the program itself.

The package `punctual_embedded` has the same `Server` inside the Python process, with commands that
are functions of Python. All times are floats of seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from punctual_server.base import BaseServer as BaseServer
    from punctual_server.client import Client as Client
    from punctual_server.client import CommandError as CommandError
    from punctual_server.server import Server as Server

__all__ = ["BaseServer", "Client", "CommandError", "Server", "__version__"]

__version__: str

_MODULES = {"BaseServer": "base", "Client": "client", "CommandError": "client", "Server": "server"}


def __getattr__(name: str) -> object:
    # Each run of pytest imports this package for its plugin, so modules are imported on demand.
    from importlib import import_module, metadata

    if name == "__version__":
        return metadata.version("punctual-server")
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
