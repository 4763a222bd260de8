"""`BaseServer`: options, addresses and context managers of all servers of the Python packages.

`punctual_server.Server` is a child process, `punctual_embedded.Server` is in this process. A test
that works with both takes a `BaseServer`.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Union
from urllib.parse import quote

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["BaseServer"]

OptionValue = Union[str, int, "os.PathLike[str]", Sequence[Union[str, int]]]
"""A value of an option: `True` and `False` mean `yes` and `no`, a sequence means several words."""

_MICROS = 1_000_000


class BaseServer(ABC):
    """A Redis-compatible server that a Python program starts.

    Use it in a `with` or `async with` statement, or call `start` and `stop`. It can be started
    again after a stop.

    Args:
        port: The TCP port; 0 picks any free port at the start, `None` disables TCP.
        threads: Number of event loops, one per thread.
        clock: `"virtual"` is a clock that moves only by `advance` or `set_time`; it starts at the
            machine's time.
        logger: A logger of `logging`, or its name such as `"punctual_server"`, to which a daemon
            thread writes the log. Warnings are `WARNING`, notices `INFO`, and the messages of
            `loglevel="debug"` and `"verbose"` are `DEBUG`. When `stop` returns, the log is
            complete.
        options: Any directive of redis.conf, with underscores for dashes: `maxclients=100`,
            `notify_keyspace_events="Ex"`, `notify_expired_values=True`, `unixsocket=path`,
            `bind=["127.0.0.1", "::1"]`, `logfile=path` (`""`: standard output). The default
            of `bind` is 127.0.0.1.

    Raises:
        ValueError: An option has an invalid value, or there is nothing to listen on.
        TypeError: An argument has a type that no option accepts.

    Warns:
        UserWarning: An option of programs has no effect here.
        ResourceWarning: The server still ran when it was dropped or the program ended.

    A fork of this process may connect to the server, but only the process that started it can stop
    or query it.
    """

    def __init__(
        self,
        port: int | None = 0,
        *,
        threads: int = 1,
        clock: Literal["real", "virtual"] = "real",
        logger: logging.Logger | str | None = None,
        **options: OptionValue,
    ) -> None:
        if port is not None and (isinstance(port, bool) or not isinstance(port, int)):
            raise TypeError(f"port: {type(port).__name__} is not an integer")
        if port is not None and not 0 <= port <= 65535:
            raise ValueError(f"port: {port} is not between 0 and 65535")
        words = {"bind": "127.0.0.1", "threads": str(threads), "clock": str(clock)}
        for name, value in options.items():
            directive = name.replace("_", "-").lower()
            if directive in {"port", "threads", "clock"}:
                raise TypeError(f"{name}: use the argument {directive} instead")
            words[directive] = _text(name, value)
        if isinstance(logger, str):
            logger = logging.getLogger(logger)
        elif not (logger is None or callable(getattr(logger, "log", None))):
            raise TypeError(f"logger: {type(logger).__name__} is not a logger")
        if logger is not None and "logfile" in words:
            raise ValueError("logger and logfile exclude each other")
        of_programs = ("daemonize", "pidfile", "supervised")
        idle = [*self._configure(port, words), *(name for name in of_programs if name in words)]
        if idle:
            here = f"{type(self).__module__.partition('.')[0]}.Server"
            warnings.warn(f"no effect in {here}: {', '.join(idle)}", stacklevel=3)
        # As in redis.conf, with an empty `bind` the server does not listen on TCP.
        self._tcp = port is not None and bool(words["bind"].strip())
        if not self._tcp and self.unix_socket is None:
            raise ValueError("nothing to listen on: give a port and an address, or unixsocket")
        self._threads = threads
        self._clock: Literal["real", "virtual"]
        self._clock = "virtual" if str(clock).lower() == "virtual" else "real"
        self._logger = logger

    @abstractmethod
    def _configure(self, port: int | None, words: dict[str, str]) -> list[str]:
        """Take the directives, and return the names of directives without effect."""

    @abstractmethod
    def start(self) -> Self:
        """Start the server unless it runs. When this returns, it accepts connections.

        A restarted server is empty unless it loads files, listens on the same port as before, and
        starts at the machine's time.

        Returns:
            The server itself.

        Raises:
            ValueError: An option is unknown or has an invalid value.
            OSError: An address is in use, or not permitted.
            RuntimeError: The server did not start, or this process is a fork of the one that
                started the server.
        """

    @abstractmethod
    def stop(self) -> None:
        """Stop the server if it runs.

        When this returns, connections are closed and the port is free. Blocked commands end when
        their connections are closed. Does nothing in a fork of the process that started the server.
        """

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        return await self.start_async()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop_async()

    async def start_async(self) -> Self:
        """Start the server, as `start` does, while the event loop runs."""
        await asyncio.to_thread(self.start)
        return self

    async def stop_async(self) -> None:
        """Stop the server, as `stop` does, while the event loop runs."""
        await asyncio.to_thread(self.stop)

    @property
    @abstractmethod
    def running(self) -> bool:
        """True while the server runs: until `stop`, or SHUTDOWN by a client. False in a fork."""

    @property
    @abstractmethod
    def address(self) -> tuple[str, int]:
        """Host and port."""

    @property
    @abstractmethod
    def unix_socket(self) -> str | None:
        """The path of the unix socket, or None without `unixsocket`."""

    @property
    @abstractmethod
    def _password(self) -> bytes | None:
        """The password of the default user, or None."""

    @property
    @abstractmethod
    def _is_inherited(self) -> bool:
        """True in a fork of the process that started the server."""

    @property
    def host(self) -> str:
        """The address to connect to, usually 127.0.0.1."""
        return self.address[0]

    @property
    def port(self) -> int:
        """The TCP port. It stays the same after the server has stopped.

        0 without TCP, and before the first start if the server picks a free port.
        """
        return self.address[1]

    @property
    def url(self) -> str:
        """The URL for `redis.Redis.from_url`, with the password: `redis://127.0.0.1:40123/0`."""
        password = self._password
        user = "" if password is None else f":{quote(password, safe='')}@"
        if self._tcp or self.unix_socket is None:
            return f"redis://{user}{self._shown_address()}/0"
        return f"unix://{user}{quote(self.unix_socket)}?db=0"

    @property
    def threads(self) -> int:
        """Number of event loops, one per thread."""
        return self._threads

    @property
    def clock(self) -> Literal["real", "virtual"]:
        """`"real"` or `"virtual"`."""
        return self._clock

    @abstractmethod
    def client(self) -> Any:
        """Connect a client with the methods `call`, `pipeline` and `message`.

        Raises:
            RuntimeError: The server does not run.
        """

    @abstractmethod
    def call(self, *args: bytes | str | float) -> Any:
        """Run one command, and return its reply.

        SELECT, MULTI and the like have no effect on later calls.

        Args:
            args: The command's name and arguments. Numbers are sent as text.

        Returns:
            The reply, with the types of RESP3: `bytes`, `int`, `float`, `bool`, `None`, `list`,
            `set` or `dict`.

        Raises:
            CommandError: The server has replied with an error.
            RuntimeError: The server does not run.
            ValueError: The command changes the form of later replies, such as MONITOR.
        """

    @abstractmethod
    def now(self) -> float:
        """Return the time of the server's clock in Unix seconds.

        Raises:
            RuntimeError: The server does not run, or runs in another process.
        """

    def advance(self, seconds: float) -> float:
        """Advance a virtual clock, and expire the keys that fall due.

        When this returns, due keys have expired in the order of their deadlines, each at the time
        of its own deadline. The server has sent their keyspace events and the replies of blocking
        commands that timed out, so a client can read them without waiting. As in Redis, the server
        disconnects a subscriber that reads too slowly: see `client-output-buffer-limit`.

        Args:
            seconds: Seconds to advance, not negative; rounded to the nearest millisecond, or for an
                embedded server to the nearest microsecond.

        Returns:
            The new time in Unix seconds.

        Raises:
            RuntimeError: The clock is real; the server does not run, or was started by another
                process.
            ValueError: `seconds` is negative, NaN or infinite.
            OverflowError: The time exceeds the range of the clock, about 292,000 years.
        """
        return self._move_by(_micros(seconds))

    def set_time(self, unix: float) -> None:
        """Move a virtual clock forward to a time, and expire the keys that fall due.

        Args:
            unix: Unix seconds, rounded up to a millisecond; for an embedded server rounded to the
                nearest microsecond.

        Raises:
            RuntimeError: See `advance`.
            ValueError: `unix` is before the clock's time, NaN or infinite.
            OverflowError: See `advance`.
        """
        self._move_to(_micros(unix))

    async def advance_async(self, seconds: float) -> float:
        """Advance the clock, as `advance` does, while the event loop runs."""
        return await asyncio.to_thread(self.advance, seconds)

    async def set_time_async(self, unix: float) -> None:
        """Move the clock, as `set_time` does, while the event loop runs."""
        await asyncio.to_thread(self.set_time, unix)

    @abstractmethod
    def _move_by(self, micros: int) -> float: ...

    @abstractmethod
    def _move_to(self, micros: int) -> float: ...

    def __repr__(self) -> str:
        listens = [f"redis://{self._shown_address()}"] if self._tcp else []
        if self.unix_socket is not None:
            listens.append(f"unix://{self.unix_socket}")
        if self._is_inherited:
            state = "of another process"
        else:
            state = "running" if self.running else "stopped"
        loops = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        package = type(self).__module__.partition(".")[0]
        where = " and ".join(listens)
        return f"<{package}.Server on {where}, {self._clock} clock, {loops}, {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a server cannot be pickled or copied; pass its url instead")

    def _shown_address(self) -> str:
        host, port = self.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _text(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, os.PathLike):
        path = os.fspath(value)
        if isinstance(path, str):
            return path
    elif isinstance(value, Sequence) and not isinstance(value, (bytes, bytearray, memoryview)):
        return " ".join(_text(name, item) for item in value)
    raise TypeError(f"{name}: {type(value).__name__} is not a type of option values")


def _micros(seconds: float) -> int:
    if not seconds >= 0 or math.isinf(seconds):
        raise ValueError(f"not a valid time: {seconds!r} seconds")
    micros = round(seconds * _MICROS)
    if micros >= 1 << 63:
        raise OverflowError("the time exceeds the range of the clock")
    return micros
