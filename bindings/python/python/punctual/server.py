"""The server of the package `punctual_server`, which is a distribution of its own.

`punctual.server.Server`, also named `punctual.Server`, is `punctual_server.Server`.

Raises:
    ImportError: `punctual_server` is not installed; `pip install punctual-server` installs it.
"""

try:
    from punctual_server import Server
except ModuleNotFoundError as missing:
    if missing.name != "punctual_server":
        raise
    raise ImportError(
        "the server is a package of its own: pip install punctual-server", name=__name__
    ) from missing

__all__ = ["Server"]
