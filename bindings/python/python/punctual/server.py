"""The Redis-compatible server inside this process.

For tests instead of mocks, and for programs that need no server of their own.
Any Redis client talks to it:

>>> import punctual, redis
>>> with punctual.Server(clock="virtual", notify_keyspace_events="Ex") as server:
...     client = redis.Redis(port=server.port, decode_responses=True)
...     _ = client.set("session", "alice", ex=1800)
...     _ = server.advance(1799)
...     print(client.get("session"), client.ttl("session"))
...     _ = server.advance(1)
...     print(client.get("session"))
alice 1
None

It runs on threads of its own, which never touch Python: a busy interpreter does not slow it down,
and a client in this process may wait for it without a deadlock. It makes and loads no snapshot
unless it is given `dir`, `dbfilename` or `save`, and writes no log unless it is given `logger` or
`logfile`.
"""

from __future__ import annotations

import logging
import math
import os
import signal
import threading
import warnings
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NoReturn, Union
from urllib.parse import quote

from punctual._punctual import LogLines, NativeServer

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    _Stopper = weakref.finalize[[NativeServer, Union[threading.Thread, None], str], "Server"]

__all__ = ["Server"]

OptionValue = Union[str, int, "os.PathLike[str]", Sequence[Union[str, int]]]
"""What an option may be: `True` and `False` are `yes` and `no`; of several values, a sequence."""

_MICROS = 1_000_000


class Server:
    """A Redis-compatible server in this process, on threads of its own.

    Use it in a `with` statement, or call `start` and `stop`, any number of times. It starts in a
    millisecond or so.

    Args:
        port: The TCP port; 0 takes any free one when it starts, and `None` does not listen on TCP.
        threads: Event loops, one per thread.
        clock: `"virtual"` is a clock that stands still until `advance` or `set_time` moves it; it
            begins at the machine's time.
        logger: Where its log goes, from a daemon thread: a logger of `logging`, or the name of one,
            such as `"punctual.server"`. Warnings are `WARNING`, notices `INFO`, the rest, which
            comes with `loglevel="debug"` or `"verbose"`, is `DEBUG`. All has been logged when
            `stop` returns.
        options: Any directive of redis.conf, with underscores for dashes: `maxclients=100`,
            `notify_keyspace_events="Ex"`, `notify_expired_values=True`, `unixsocket=path`,
            `bind=["127.0.0.1", "::1"]`, `logfile=path` (`""`: standard output). It listens on
            127.0.0.1 alone unless `bind` says otherwise.

    Starting it raises the process's limit of open files to `maxclients` and 32, if that is more,
    as far as the system allows.

    Raises:
        ValueError: An option that is not known, or has a wrong value; nothing to listen on.
        TypeError: A value that no option can have.

    Warns:
        UserWarning: An option of Redis's that does nothing here.
        ResourceWarning: A server that was not stopped, when it is dropped or the program ends.

    A fork of this process may connect to the server, but only the process that has started it can
    stop or ask it.
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
            raise TypeError(f"port: {type(port).__name__} is not a number")
        if port is not None and not 0 <= port <= 65535:
            raise ValueError(f"port: {port} is not between 0 and 65535")
        words = {"bind": "127.0.0.1", "threads": str(threads), "clock": str(clock)}
        for name, value in options.items():
            directive = name.replace("_", "-").lower()
            if directive in {"port", "threads", "clock"}:
                raise TypeError(f"{name}: write {directive}, which is an argument of its own")
            words[directive] = _text(name, value)
        if isinstance(logger, str):
            logger = logging.getLogger(logger)
        elif not (logger is None or callable(getattr(logger, "log", None))):
            raise TypeError(f"logger: {type(logger).__name__} is no logger")
        if logger is not None and "logfile" in words:
            raise ValueError("logger and logfile: the log goes to one of them")
        native = NativeServer(port, list(words.items()))
        of_programs = ("daemonize", "pidfile", "supervised")
        idle = [*native.without_effect, *(name for name in of_programs if name in words)]
        if idle:
            warnings.warn(f"no effect in punctual.Server: {', '.join(idle)}", stacklevel=2)
        self._native = native
        # As in redis.conf, an empty `bind` is no address at all.
        self._tcp = port is not None and bool(words["bind"].strip())
        if not self._tcp and native.unix_socket is None:
            raise ValueError(
                "it would listen nowhere: it needs a port and an address, or unixsocket"
            )
        self._clock: Literal["real", "virtual"] = "virtual" if native.is_virtual else "real"
        self._logger = logger
        self._log_thread: threading.Thread | None = None
        self._stopper: (
            weakref.finalize[[NativeServer, threading.Thread | None, str], Server] | None
        ) = None

    def start(self) -> Self:
        """Start the server, if it does not run; it serves when this returns.

        A server that is started again is empty, listens on the same port as before, and begins at
        the machine's time.

        Returns:
            The server itself.

        Raises:
            OSError: An address that is in use, or may not be listened on.
            RuntimeError: In a fork of the process that has started it.
        """
        if self._start():
            if self._stopper is not None:
                self._stopper.detach()
            # Not `__del__`: this also runs when the interpreter ends.
            self._stopper = weakref.finalize(
                self, _abandoned, self._native, self._log_thread, repr(self)
            )
        return self

    def stop(self) -> None:
        """Stop the server, if it runs.

        Connections are closed, the port is free and the threads are gone when this returns.
        Commands that wait are ended with their connections. Does nothing in a fork of the process
        that has started it.
        """
        stopper, self._stopper = self._stopper, None
        if stopper is not None:
            stopper.detach()
        self._native.stop()
        thread, self._log_thread = self._log_thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def running(self) -> bool:
        """Whether it serves. A client may have ended it (SHUTDOWN); in a fork it never does."""
        return self._native.is_running()

    @property
    def host(self) -> str:
        """The address to connect to, usually 127.0.0.1."""
        return self._native.address()[0]

    @property
    def port(self) -> int:
        """The TCP port, also after the server has stopped.

        0 if it takes any free one and has not been started yet, and if it does not listen on TCP.
        """
        return self._native.address()[1]

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self._native.address()

    @property
    def unix_socket(self) -> str | None:
        """The path of its unix socket, if it was given `unixsocket`."""
        path = self._native.unix_socket
        return None if path is None else os.fspath(path)

    @property
    def url(self) -> str:
        """What `redis.Redis.from_url` takes, the password included: `redis://127.0.0.1:40123/0`."""
        password = self._native.password
        user = "" if password is None else f":{quote(password, safe='')}@"
        if self._tcp or self.unix_socket is None:
            return f"redis://{user}{self._shown_address()}/0"
        return f"unix://{user}{quote(self.unix_socket)}?db=0"

    @property
    def threads(self) -> int:
        """Event loops, one per thread."""
        return self._native.threads

    @property
    def clock(self) -> Literal["real", "virtual"]:
        """`"real"` or `"virtual"`."""
        return self._clock

    def now(self) -> float:
        """Tell the time on the server's clock, in seconds of unix time.

        Raises:
            RuntimeError: It does not run, or runs in another process.
        """
        return self._native.now()

    def advance(self, seconds: float) -> float:
        """Move a virtual clock forward; what falls due on the way happens.

        When this returns, keys that are due by then have expired, each at its own deadline and in
        that order, and all that came of it has been sent: keyspace events, and the replies of
        blocking commands whose timeouts have passed. A client that looks finds it without waiting.
        A subscriber that could not keep up has been disconnected, as by Redis: see the directive
        `client-output-buffer-limit`.

        Args:
            seconds: How far, to the nearest microsecond. Not negative.

        Returns:
            The time, in seconds of unix time.

        Raises:
            RuntimeError: The clock is real; the server does not run, or runs in another process.
            ValueError: `seconds` is negative or no number.
            OverflowError: The time is later than the server can count, in about 292,000 years.
        """
        return self._native.advance(_micros(seconds))

    def set_time(self, unix: float) -> None:
        """Move a virtual clock to a time not before its own; what falls due on the way happens.

        Args:
            unix: Seconds of unix time, to the nearest microsecond.

        Raises:
            RuntimeError: As `advance`.
            ValueError: `unix` is before the time on the clock, or no number.
            OverflowError: As `advance`.
        """
        self._native.set_time(_micros(unix))

    def __repr__(self) -> str:
        listens = [f"redis://{self._shown_address()}"] if self._tcp else []
        if self.unix_socket is not None:
            listens.append(f"unix://{self.unix_socket}")
        if self._native.is_inherited:
            state = "of another process"
        else:
            state = "running" if self.running else "stopped"
        loops = "1 thread" if self.threads == 1 else f"{self.threads} threads"
        where = " and ".join(listens) or "nowhere"
        return f"<punctual.Server on {where}, {self._clock} clock, {loops}, {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a server cannot be pickled or copied; pass its url on, and connect to it")

    def _start(self) -> bool:
        """Start the server, and a thread for its log; tell whether it did not run."""
        if self._logger is None:
            return _start_without_signals(self._native)
        lines = LogLines()
        try:
            started = _start_without_signals(self._native, lines)
        except BaseException:
            # What the log has to say of it.
            _log(lines, self._logger)
            raise
        if started:
            self._log_thread = threading.Thread(
                target=_log, args=(lines, self._logger), name="punctual-log", daemon=True
            )
            self._log_thread.start()
        return started

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
    raise TypeError(f"{name}: {type(value).__name__} is nothing that an option can be")


def _micros(seconds: float) -> int:
    if not seconds >= 0 or math.isinf(seconds):
        raise ValueError(f"not a time that can come: {seconds!r} seconds")
    micros = round(seconds * _MICROS)
    if micros >= 1 << 63:
        raise OverflowError("the time is later than the server can count")
    return micros


def _start_without_signals(native: NativeServer, log: LogLines | None = None) -> bool:
    """Start it on threads that hear no signals: the program may block some and wait for them."""
    # Threads inherit what is blocked. Not what a fault in them raises: its handlers tell of it.
    faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - faults)
    try:
        return native.start(log)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _log(lines: LogLines, logger: logging.Logger) -> None:
    """Pass on a server's log until it ends."""
    for level, message in lines:
        logger.log(level, "%s", message)


def _abandoned(native: NativeServer, log_thread: threading.Thread | None, shown: str) -> None:
    """Stop a server that nobody has stopped."""
    # It has no reference to the `Server`, which may so be dropped.
    if native.is_running():
        native.stop()
        if log_thread is not None:
            # A thread that writes as the interpreter ends may end it badly. Not for ever: whoever
            # runs this, perhaps the garbage collector, may hold what the thread waits for.
            log_thread.join(1)
        warnings.warn(f"not stopped: {shown}", ResourceWarning, stacklevel=2)
