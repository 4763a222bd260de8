"""A Redis-compatible server inside this process.

For tests in place of mocks, and for programs that need no separate server. Any Redis client can
connect to it:

>>> import punctual_server, redis
>>> with punctual_server.Server(clock="virtual", notify_keyspace_events="Ex") as server:
...     client = redis.Redis(port=server.port, decode_responses=True)
...     _ = client.set("session", "alice", ex=1800)
...     _ = server.advance(1799)
...     print(client.get("session"), client.ttl("session"))
...     _ = server.advance(1)
...     print(client.get("session"))
alice 1
None

The server runs on its own threads, which never run Python: a busy interpreter does not slow it
down, and a client in this process may wait for it without a deadlock. Only own commands
(`Server.command`) wait for a thread of Python. The server neither loads nor saves files without one
of the options `dir`, `dbfilename`, `save` and `appendonly`, and writes no log without `logger` or
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
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, Union
from urllib.parse import quote

from punctual_server import commands
from punctual_server._punctual_server import (
    Client,
    CommandError,
    CommandRequests,
    Invocation,
    LogLines,
    NativeServer,
)

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

__all__ = ["Client", "CommandError", "Invocation", "Server"]

_Function = TypeVar("_Function", bound="Callable[..., object]")

OptionValue = Union[str, int, "os.PathLike[str]", Sequence[Union[str, int]]]
"""A value of an option: `True` and `False` mean `yes` and `no`, a sequence means several words."""

_MICROS = 1_000_000


class Server:
    """A Redis-compatible server in this process, on its own threads.

    Use it in a `with` statement, or call `start` and `stop`. It can be started again after a stop.
    A start takes about a millisecond.

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

    If the process's limit of open files is below `maxclients` + 32, a start raises it as far as the
    system allows.

    Raises:
        ValueError: An option is unknown or has an invalid value, or there is nothing to listen on.
        TypeError: An argument has a type that no option accepts.

    Warns:
        UserWarning: A Redis option has no effect here.
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
        native = NativeServer(port, list(words.items()))
        of_programs = ("daemonize", "pidfile", "supervised")
        idle = [*native.without_effect, *(name for name in of_programs if name in words)]
        if idle:
            warnings.warn(f"no effect in punctual_server.Server: {', '.join(idle)}", stacklevel=2)
        self._native = native
        # As in redis.conf, with an empty `bind` the server does not listen on TCP.
        self._tcp = port is not None and bool(words["bind"].strip())
        if not self._tcp and native.unix_socket is None:
            raise ValueError("nothing to listen on: give a port and an address, or unixsocket")
        self._clock: Literal["real", "virtual"] = "virtual" if native.is_virtual else "real"
        self._logger = logger
        self._functions: list[Callable[..., object]] = []
        self._log_thread: threading.Thread | None = None
        self._runner: commands.Runner | None = None
        self._stopper: weakref.finalize[..., Server] | None = None

    def start(self) -> Self:
        """Start the server unless it runs. When this returns, it accepts connections.

        A restarted server is empty unless it loads files, listens on the same port as before, and
        starts at the machine's time.

        Returns:
            The server itself.

        Raises:
            OSError: An address is in use, or not permitted.
            RuntimeError: This process is a fork of the one that started the server.
        """
        if self._start():
            if self._stopper is not None:
                self._stopper.detach()
            # Unlike `__del__`, a finalizer also runs when the interpreter ends.
            self._stopper = weakref.finalize(
                self, _stop_dropped, self._native, self._runner, self._log_thread, repr(self)
            )
        return self

    def stop(self) -> None:
        """Stop the server if it runs.

        When this returns, connections are closed, the port is free and the threads have ended.
        Blocked commands end when their connections are closed. Does nothing in a fork of the
        process that started the server.
        """
        stopper, self._stopper = self._stopper, None
        if stopper is not None:
            stopper.detach()
        self._native.stop()
        runner, self._runner = self._runner, None
        if runner is not None and not self._native.is_inherited:
            runner.end()
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
        """True while the server runs: until `stop`, or SHUTDOWN by a client. False in a fork."""
        return self._native.is_running()

    @property
    def host(self) -> str:
        """The address to connect to, usually 127.0.0.1."""
        return self._native.address()[0]

    @property
    def port(self) -> int:
        """The TCP port. It stays the same after the server has stopped.

        0 without TCP, and before the first start if the server picks a free port.
        """
        return self._native.address()[1]

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self._native.address()

    @property
    def unix_socket(self) -> str | None:
        """The path of the unix socket, or None without `unixsocket`."""
        path = self._native.unix_socket
        return None if path is None else os.fspath(path)

    @property
    def url(self) -> str:
        """The URL for `redis.Redis.from_url`, with the password: `redis://127.0.0.1:40123/0`."""
        password = self._native.password
        user = "" if password is None else f":{quote(password, safe='')}@"
        if self._tcp or self.unix_socket is None:
            return f"redis://{user}{self._shown_address()}/0"
        return f"unix://{user}{quote(self.unix_socket)}?db=0"

    @property
    def threads(self) -> int:
        """Number of event loops, one per thread."""
        return self._native.threads

    @property
    def clock(self) -> Literal["real", "virtual"]:
        """`"real"` or `"virtual"`."""
        return self._clock

    def now(self) -> float:
        """Return the time of the server's clock in Unix seconds.

        Raises:
            RuntimeError: The server does not run, or runs in another process.
        """
        return self._native.now()

    def client(self) -> Client:
        """Connect a client in this process, without a socket.

        The client has all permissions, and a session of its own: `call` runs a command and returns
        its reply, `pipeline` runs several at once, and `message` waits for a message of a
        subscription. A call releases the GIL, and takes about a microsecond. Replies have the types
        of RESP3: `bytes`, `int`, `float`, `bool`, `None`, `list`, `set` and `dict`. Dropping the
        client disconnects it.

        >>> import punctual_server
        >>> with punctual_server.Server() as server:
        ...     client = server.client()
        ...     _ = client.call("SET", "visits", 1)
        ...     print(client.call("INCR", "visits"))
        ...     print(client.pipeline([("HSET", "h", "f", "v"), ("HGETALL", "h")]))
        2
        [1, {b'f': b'v'}]

        Returns:
            The client. Threads that use the same client wait for each other.

        Raises:
            RuntimeError: The server does not run, or has as many clients as `maxclients` allows.
        """
        return self._native.client()

    def call(self, *args: bytes | str | float) -> Any:
        """Run one command without a socket, and return its reply.

        Calls use clients of this server again, and never a client that may have changed: SELECT,
        MULTI and the like have no effect on later calls.

        Args:
            args: The command's name and arguments. Numbers are sent as text.

        Returns:
            The reply, as `Client.call` returns it.

        Raises:
            CommandError: The server has replied with an error.
            RuntimeError: The server does not run.
            ValueError: The command needs a connection over a socket, such as MONITOR.
        """
        return self._native.call(*args)

    def command(
        self,
        name: str,
        *,
        keys: int | tuple[int, int, int] | None = None,
        flags: Iterable[str] = ("write",),
        categories: Iterable[str] = (),
        summary: str | None = None,
        complexity: str = "",
    ) -> Callable[[_Function], _Function]:
        """Declare an own command: a decorator of the function that runs it.

        Clients, transactions, scripts and timers can call the command, and COMMAND, COMMAND DOCS
        and ACL rules know it. The function gets an `Invocation`, and the command's arguments as
        `bytes`; its parameters say how many. It returns the reply: `bytes`, `str`, `int`, `float`,
        `bool`, `None`, or a `list`, `tuple`, `set` or `dict` of these. A `CommandError` becomes an
        error reply. So does any other exception, which is also logged, to `logger` or to the logger
        `punctual_server`.

        >>> import punctual_server
        >>> server = punctual_server.Server()
        >>> @server.command("take", keys=1)
        ... def take(invocation, key, amount=b"1"):
        ...     "Takes an amount if there is as much."
        ...     if int(invocation.call("GET", key) or 0) < int(amount):
        ...         raise punctual_server.CommandError("ERR not enough left")
        ...     return invocation.call("DECRBY", key, amount)
        >>> with server:
        ...     _ = server.call("SET", "stock", 5)
        ...     print(server.call("TAKE", "stock", 3))
        2

        Functions run on one thread of Python, one at a time. The command is atomic, and its event
        loop waits for it, so the function must be quick. It must use the server only by its
        `Invocation`, and must not wait for other threads that use the server. The commands that it
        calls are written to the append-only file and to replicas, in one transaction. After an
        exception, they remain in force. An own command cannot call another one.

        Args:
            name: The command's name, in lower case.
            keys: Position of the last argument that is a key, if all arguments up to it are keys:
                1 for the first argument, -1 for all. Or the positions of the first and the last key
                and the distance between two keys. None for no keys. A function may use only keys
                that are arguments.
            flags: Flags of COMMAND INFO: `write` if the function calls commands that write,
                otherwise `readonly`; and `denyoom`, `fast`, `noscript`, `no_multi`, `loading`,
                `stale`, `skip_slowlog`, `admin`.
            categories: ACL categories, besides those that follow from the flags.
            summary: One line for COMMAND DOCS, by default the first line of the docstring.
            complexity: The time complexity for COMMAND DOCS.

        Raises:
            TypeError: The function does not take an `Invocation`.
            ValueError: A part of the declaration is wrong, or the server has such a command.
            RuntimeError: The server runs.
        """

        def declare(function: _Function) -> _Function:
            taken = commands.parameters(function)
            line = commands.summary(function) if summary is None else summary
            texts, positions = (name, line, complexity), commands.positions(keys)
            self._native.declare(texts, taken, list(flags), positions, list(categories))
            self._functions.append(function)
            return function

        return declare

    def advance(self, seconds: float) -> float:
        """Advance a virtual clock, and expire the keys that fall due.

        When this returns, due keys have expired in the order of their deadlines, each at the time
        of its own deadline. The server has sent their keyspace events and the replies of blocking
        commands that timed out, so a client can read them without waiting. As in Redis, the server
        disconnects a subscriber that reads too slowly: see `client-output-buffer-limit`.

        Args:
            seconds: Seconds to advance, rounded to the nearest microsecond. Not negative.

        Returns:
            The new time in Unix seconds.

        Raises:
            RuntimeError: The clock is real; the server does not run, or runs in another process.
            ValueError: `seconds` is negative, NaN or infinite.
            OverflowError: The time exceeds the range of the clock, about 292,000 years.
        """
        return self._native.advance(_micros(seconds))

    def set_time(self, unix: float) -> None:
        """Move a virtual clock forward to a time, and expire the keys that fall due.

        Args:
            unix: Unix seconds, rounded to the nearest microsecond.

        Raises:
            RuntimeError: See `advance`.
            ValueError: `unix` is before the clock's time, NaN or infinite.
            OverflowError: See `advance`.
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
        return f"<punctual_server.Server on {where}, {self._clock} clock, {loops}, {state}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a server cannot be pickled or copied; pass its url instead")

    def _start(self) -> bool:
        """Start the server, and threads for its log and its commands. False if it was running."""
        if self._native.is_running():
            return False
        runner = None
        if self._functions:
            logger = self._logger or logging.getLogger("punctual_server")
            runner = commands.Runner(self._functions, logger)
        lines = LogLines() if self._logger is not None else None
        started = False
        try:
            requests = None if runner is None else runner.requests
            started = _start_without_signals(self._native, lines, requests)
        except BaseException:
            if lines is not None and self._logger is not None:
                # The log explains the failure.
                _log(lines, self._logger)
            raise
        finally:
            if not started and runner is not None:
                runner.end()
        if started:
            self._runner = runner
            if lines is not None:
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
    raise TypeError(f"{name}: {type(value).__name__} is not a type of option values")


def _micros(seconds: float) -> int:
    if not seconds >= 0 or math.isinf(seconds):
        raise ValueError(f"not a valid time: {seconds!r} seconds")
    micros = round(seconds * _MICROS)
    if micros >= 1 << 63:
        raise OverflowError("the time exceeds the range of the clock")
    return micros


def _start_without_signals(
    native: NativeServer, log: LogLines | None, requests: CommandRequests | None
) -> bool:
    """Start the server on threads that block all signals but faults.

    A program may block signals and wait for them. The kernel would deliver such a signal to a
    thread of the server if the thread did not block it.
    """
    # Threads inherit the mask. Handlers of faults (faulthandler) must still run.
    faults = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - faults)
    try:
        return native.start(log, requests)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _log(lines: LogLines, logger: logging.Logger) -> None:
    """Forward a server's log to `logger` until it ends."""
    for level, message in lines:
        logger.log(level, "%s", message)


def _stop_dropped(
    native: NativeServer,
    runner: commands.Runner | None,
    log_thread: threading.Thread | None,
    shown: str,
) -> None:
    """Stop a server that is dropped while it runs."""
    # The arguments do not reference the `Server`, so that it can be dropped.
    if native.is_running():
        native.stop()
        # A thread that writes to the log while the interpreter ends may crash the interpreter. The
        # waits have limits, because this thread may hold a lock that the other threads need: the
        # garbage collector may call this function anywhere.
        if runner is not None:
            runner.end()
        if log_thread is not None:
            log_thread.join(1)
        warnings.warn(f"not stopped: {shown}", ResourceWarning, stacklevel=2)
