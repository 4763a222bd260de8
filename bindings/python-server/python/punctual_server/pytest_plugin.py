"""Fixtures for pytest: a real server for each test instead of a mock.

pytest loads this plugin if the package is installed. The fixture `punctual_server` is a `Server`,
new and empty for each test, also for tests with asyncio.
`punctual_clock` makes that server's clock virtual and advances it:

    def test_sessions_end(punctual_server, punctual_clock):
        sessions = Sessions(redis.Redis(port=punctual_server.port))
        token = sessions.begin("alice")
        punctual_clock.advance(1800)
        assert sessions.user(token) is None

Options of the server come from the mark `punctual` of a test, a class or a module, and for all
tests from `punctual_options` in the configuration of pytest, as lines of redis.conf:

    @pytest.mark.punctual(notify_keyspace_events="Ex", threads=2)
    def test_events(punctual_server): ...

    [tool.pytest.ini_options]
    punctual_options = ["notify-keyspace-events Ex"]

The server is a child process, or in this process if the package `punctual_embedded` is installed.
A fixture `punctual_server_class` in a conftest.py that returns one of the classes decides this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from punctual_server import BaseServer

__all__ = ["Clock", "punctual_clock", "punctual_server", "punctual_server_class"]

_MARK = (
    "punctual(port=0, *, threads=1, clock='real', logger=None, **options): "
    "options of `punctual_server`"
)
_INI = "lines of redis.conf for every server of `punctual_server`"

_VIRTUAL = pytest.StashKey[bool]()


class Clock:
    """The virtual clock of a test's server."""

    def __init__(self, server: BaseServer) -> None:
        self.server = server
        """The server of the fixture `punctual_server`."""

    def advance(self, seconds: float) -> float:
        """Advance the clock and return the new time; see `punctual_server.BaseServer.advance`."""
        return self.server.advance(seconds)

    async def advance_async(self, seconds: float) -> float:
        """Advance the clock, as `advance` does, while the event loop runs."""
        return await self.server.advance_async(seconds)

    def set_time(self, unix: float) -> None:
        """Move the clock forward to a time; see `punctual_server.BaseServer.set_time`."""
        self.server.set_time(unix)

    async def set_time_async(self, unix: float) -> None:
        """Move the clock, as `set_time` does, while the event loop runs."""
        await self.server.set_time_async(unix)

    def now(self) -> float:
        """Return the time in Unix seconds."""
        return self.server.now()

    def __repr__(self) -> str:
        return f"<the clock of {self.server!r}>"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Register `punctual_options`."""
    parser.addini("punctual_options", _INI, type="linelist", default=[])


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", _MARK)


@pytest.fixture(scope="session")
def punctual_server_class() -> type[BaseServer]:
    """Return `punctual_embedded.Server` if it is installed, or else `punctual_server.Server`."""
    # Every pytest run loads this plugin if the package is installed, so it imports little.
    try:
        from punctual_embedded import Server as Embedded
    except ModuleNotFoundError:
        from punctual_server import Server

        return Server
    return Embedded


@pytest.fixture
def punctual_server(
    request: pytest.FixtureRequest, punctual_server_class: type[BaseServer]
) -> Iterator[BaseServer]:
    """Start a new, empty server for one test and stop it at the end."""
    arguments: dict[str, Any] = {}
    for line in request.config.getini("punctual_options"):
        name, _, value = line.partition(" ")
        name, value = name.replace("-", "_").lower(), value.strip()
        arguments[name] = int(value) if name in {"port", "threads"} and value.isdigit() else value
    for mark in reversed(list(request.node.iter_markers("punctual"))):
        arguments.update(zip(("port",), mark.args))
        arguments.update(mark.kwargs)
    if "punctual_clock" in request.fixturenames or request.node.stash.get(_VIRTUAL, False):
        arguments["clock"] = "virtual"
    try:
        server = punctual_server_class(**arguments).start()
    except (TypeError, ValueError) as error:
        raise pytest.UsageError(f"punctual_server: {error}") from error
    with server:
        yield server


@pytest.fixture
def punctual_clock(request: pytest.FixtureRequest) -> Clock:
    """Give the test's server a virtual clock, which moves only when advanced."""
    # `punctual_server` looks for this if a test requests `punctual_clock` while it runs, by
    # `getfixturevalue`.
    request.node.stash[_VIRTUAL] = True
    punctual_server: BaseServer = request.getfixturevalue("punctual_server")
    if punctual_server.clock != "virtual":
        raise pytest.UsageError(
            "punctual_clock: the server of this test already runs on the machine's clock; "
            "make punctual_clock an argument of the test, or mark the test with "
            '@pytest.mark.punctual(clock="virtual")'
        )
    return Clock(punctual_server)
