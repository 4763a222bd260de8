"""A Redis-compatible server inside this process.

>>> import punctual_embedded
>>> with punctual_embedded.Server(clock="virtual") as server:
...     _ = server.call("SET", "session", "alice", "EX", 1800)
...     _ = server.advance(1799)
...     print(server.call("GET", "session"), server.call("TTL", "session"))
...     _ = server.advance(1)
...     print(server.call("GET", "session"))
b'alice' 1
None

The server runs on its own threads, which never run Python: a busy interpreter does not slow it
down, and a client in this process may wait for it without a deadlock. Only own commands
(`Server.command`) wait for a thread of Python. The server neither loads nor saves files without one
of the options `dir`, `dbfilename`, `save` and `appendonly`, and writes no log without `logger` or
`logfile`.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from punctual_server import BaseServer, CommandError

from punctual_embedded import commands
from punctual_embedded._punctual_embedded import (
    Client,
    CommandRequests,
    Invocation,
    LogLines,
    NativeServer,
)

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Client", "CommandError", "Invocation", "Server"]

_Function = TypeVar("_Function", bound="Callable[..., object]")


class Server(BaseServer):
    """A Redis-compatible server in this process, on its own threads.

    The arguments, exceptions and warnings are those of `BaseServer`; a wrong option raises
    `ValueError` at once, and an option of Redis that has no effect warns. A start takes about a
    millisecond. If the process's limit of open files is below `maxclients` + 32, a start raises it
    as far as the system allows.
    """

    def _configure(self, port: int | None, words: dict[str, str]) -> list[str]:
        self._native = NativeServer(port, list(words.items()))
        self._functions: list[Callable[..., object]] = []
        self._log_thread: threading.Thread | None = None
        self._runner: commands.Runner | None = None
        self._stopper: weakref.finalize[..., Server] | None = None
        return self._native.without_effect

    def start(self) -> Self:
        """Start the server unless it runs; see `BaseServer.start`."""
        if self._start():
            if self._stopper is not None:
                self._stopper.detach()
            # Unlike `__del__`, a finalizer also runs when the interpreter ends.
            self._stopper = weakref.finalize(
                self, _stop_dropped, self._native, self._runner, self._log_thread, repr(self)
            )
        return self

    def stop(self) -> None:
        """Stop the server if it runs; see `BaseServer.stop`. Its threads have ended then."""
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

    @property
    def running(self) -> bool:
        """True while the server runs: until `stop`, or SHUTDOWN by a client. False in a fork."""
        return self._native.is_running()

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
    def _password(self) -> bytes | None:
        return self._native.password

    @property
    def _is_inherited(self) -> bool:
        return self._native.is_inherited

    def now(self) -> float:
        """Return the time of the server's clock in Unix seconds; see `BaseServer.now`."""
        return self._native.now()

    def client(self) -> Client:
        """Connect a client in this process, without a socket.

        The client has all permissions, and a session of its own: `call` runs a command and returns
        its reply, `pipeline` runs several at once, and `message` waits for a message of a
        subscription. A call releases the GIL, and takes about a microsecond. Replies have the types
        of RESP3: `bytes`, `int`, `float`, `bool`, `None`, `list`, `set` and `dict`. Dropping the
        client disconnects it.

        >>> import punctual_embedded
        >>> with punctual_embedded.Server() as server:
        ...     client = server.client()
        ...     _ = client.call("SET", "visits", 1)
        ...     print(client.call("INCR", "visits"))
        ...     print(client.pipeline([("HSET", "h", "f", "v"), ("HGETALL", "h")]))
        2
        [1, {b'f': b'v'}]

        Returns:
            The client. Several threads may use it; their calls run one after the other.

        Raises:
            RuntimeError: The server does not run, or has as many clients as `maxclients` allows.
        """
        return self._native.client()

    def call(self, *args: bytes | str | float) -> Any:
        """Run one command without a socket, and return its reply; see `BaseServer.call`.

        Calls use clients of this server again, and never a client that may have changed.
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
        `punctual_embedded`.

        >>> import punctual_embedded
        >>> server = punctual_embedded.Server()
        >>> @server.command("take", keys=1)
        ... def take(invocation, key, amount=b"1"):
        ...     "Takes an amount if there is as much."
        ...     if int(invocation.call("GET", key) or 0) < int(amount):
        ...         raise punctual_embedded.CommandError("ERR not enough left")
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

    def _move_by(self, micros: int) -> float:
        return self._native.advance(micros)

    def _move_to(self, micros: int) -> float:
        self._native.set_time(micros)
        return micros / 1e6

    def _start(self) -> bool:
        """Start the server, and threads for its log and its commands. False if it was running."""
        if self._native.is_running():
            return False
        runner = None
        if self._functions:
            logger = self._logger or logging.getLogger("punctual_embedded")
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
