"""`Server`: a Redis-compatible server as a child process, for tests in place of mocks.

>>> import punctual_server
>>> with punctual_server.Server(clock="virtual") as server:
...     client = server.client()
...     _ = client.call("SET", "session", "alice", "EX", 1800)
...     _ = server.advance(1799)
...     print(client.call("GET", "session"), client.call("TTL", "session"))
...     _ = server.advance(1)
...     print(client.call("GET", "session"))
b'alice' 1
None

The process runs with `supervised parent`: it says when it accepts connections, and it ends when its
standard input is closed. The system closes this pipe even if this process is killed, so no server
outlives its program (and the program's forks, which have the pipe as well).

A daemon thread reads the log, so that the process never waits for its reader.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import warnings
import weakref
from collections import deque
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any, NoReturn

from punctual_server import program
from punctual_server.base import BaseServer
from punctual_server.client import Client, CommandError

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Server"]

_LEVELS = {".": logging.DEBUG, "-": logging.DEBUG, "*": logging.INFO, "#": logging.WARNING}
_LINE = re.compile(r"\d+:\w [^*#]*? ([.\-*#]) (.*)")
"""A line of the log: process and role, time, level, message."""

_LINES_MAX = 1000
"""Number of lines of the log that `log` returns."""

_PATIENCE = 30.0
"""Seconds for a shutdown, which may save a snapshot; after that, the process is killed."""

_FILE_OPTIONS = ("dir", "dbfilename", "save", "appendonly")


class _Process:
    """A running process, and the thread that reads its log."""

    def __init__(
        self, command: list[str], folder: str | None, logger: logging.Logger | None
    ) -> None:
        self.pid = os.getpid()
        self._folder = folder
        self.log: deque[str] = deque(maxlen=_LINES_MAX)
        self._logger = logger
        self.child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            # Ctrl-C must not end the server before the program that uses it.
            start_new_session=True,
        )
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.input = self.child.stdin
        self._output: IO[bytes] = self.child.stdout
        self._reader = threading.Thread(target=self._read, name="punctual-log", daemon=True)
        self._ending = threading.Lock()

    def wait_until_ready(self) -> int | None:
        """Return the port, or None if the process has ended instead."""
        for line in self._output:
            if line.startswith(b"ready port="):
                self._start_reader()
                return int(line[11:])
            self._note(line)
        self.child.wait()
        self._close()
        return None

    def _start_reader(self) -> None:
        # A program may block signals and wait for them. The kernel would deliver such a signal to
        # the new thread if that, which inherits the mask, did not block it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            self._reader.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def end(self, patience: float = _PATIENCE) -> None:
        """End the process, and wait for it."""
        with contextlib.suppress(OSError):
            self.child.terminate()
        # A handler of the log runs in the reader, which cannot wait for itself.
        if self._reader is threading.current_thread():
            return
        # One thread at a time joins: several at once fail in PyPy.
        with self._ending:
            # The reader sees the end of the process's output. `wait` with a limit would poll.
            self._reader.join(patience)
            if self._reader.is_alive():
                self.child.kill()
                # The garbage collector may have called this while it held a lock of `logging`.
                self._reader.join(1)

    def _read(self) -> None:
        for line in self._output:
            self._note(line)
        self.child.wait()
        self._close()

    def _note(self, line: bytes) -> None:
        text = line.decode(errors="replace").rstrip("\n")
        self.log.append(text)
        if self._logger is not None:
            parts = _LINE.match(text)
            level, message = (_LEVELS[parts[1]], parts[2]) if parts else (logging.WARNING, text)
            self._logger.log(level, "%s", message)

    def _close(self) -> None:
        self.input.close()
        self._output.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class Server(BaseServer):
    """A Redis-compatible server as a child process.

    The arguments, exceptions and warnings are those of `BaseServer`. A wrong option raises
    `ValueError` at the start, which takes a few milliseconds. The server neither loads nor saves
    files without one of the options `dir`, `dbfilename`, `save` and `appendonly`.

    `punctual_embedded.Server` is a server in this process instead, with the same methods.
    """

    def _configure(self, port: int | None, words: dict[str, str]) -> list[str]:
        # The binary warns about other directives without effect in its log.
        self._options = {k: v for k, v in words.items() if k not in {"daemonize", "supervised"}}
        self._keeps_files = any(name in words for name in _FILE_OPTIONS)
        host = words["bind"].split()[0].lstrip("-") if words["bind"].split() else ""
        everywhere = {"*": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1", "::*": "::1"}
        self._address = (everywhere.get(host, host), port or 0)
        if port is None:
            self._options["bind"] = ""
        self._process: _Process | None = None
        self._lock = threading.Lock()
        self._stopper: weakref.finalize[..., Server] | None = None
        return []

    def start(self) -> Self:
        """Start the server unless it runs; see `BaseServer.start`."""
        self._check_process()
        with self._lock:
            if self.running:
                return self
            folder = None if self._keeps_files else tempfile.mkdtemp(prefix="punctual-")
            process = _Process(self._command(folder), folder, self._logger)
            try:
                port = process.wait_until_ready()
            except BaseException:
                process.child.kill()
                raise
            if port is None:
                raise self._failure(list(process.log))
            self._process = process
            if self._tcp:
                self._address = (self._address[0], port)
            if self._stopper is not None:
                self._stopper.detach()
            # Unlike `__del__`, a finalizer also runs when the interpreter ends.
            self._stopper = weakref.finalize(self, _stop_dropped, process, repr(self))
        return self

    def stop(self) -> None:
        """Stop the server if it runs; see `BaseServer.stop`."""
        process = self._process
        if process is None or self._is_inherited:
            return
        stopper, self._stopper = self._stopper, None
        if stopper is not None:
            stopper.detach()
        process.end()

    @property
    def running(self) -> bool:
        """True while the server runs: until `stop`, or SHUTDOWN by a client. False in a fork."""
        process = self._process
        return process is not None and not self._is_inherited and process.child.poll() is None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        return self._address

    @property
    def unix_socket(self) -> str | None:
        """The path of the unix socket, or None without `unixsocket`."""
        return self._options.get("unixsocket") or None

    @property
    def log(self) -> list[str]:
        """The last 1000 lines of the log of the last start, unless the option `logfile` is set."""
        return [] if self._process is None else list(self._process.log)

    @property
    def _password(self) -> bytes | None:
        password = self._options.get("requirepass", "")
        return password.encode() if password else None

    @property
    def _is_inherited(self) -> bool:
        process = self._process
        return (
            process is not None and process.pid != os.getpid() and process.child.returncode is None
        )

    def client(self) -> Client:
        """Connect a client, as the default user.

        >>> import punctual_server
        >>> with punctual_server.Server() as server:
        ...     client = server.client()
        ...     _ = client.call("SET", "visits", 1)
        ...     print(client.call("INCR", "visits"))
        ...     print(client.pipeline([("HSET", "h", "f", "v"), ("HGETALL", "h")]))
        2
        [1, {b'f': b'v'}]

        Returns:
            The client. Several threads may use it; their calls run one after the other.

        Raises:
            CommandError: The server refuses the client, for example because of `maxclients`.
            RuntimeError: The server does not run.
        """
        self._check_process()
        if not self.running:
            raise RuntimeError(
                "the server is not running: use it in a `with` statement, or start() it"
            )
        socket = None if self._tcp else self.unix_socket
        try:
            return Client(self.address if socket is None else socket, self._password)
        except OSError as error:
            raise RuntimeError(f"the server is not running: {error}") from error

    def call(self, *args: bytes | str | float) -> Any:
        """Run one command, and return its reply; see `BaseServer.call`."""
        with self._brief_client() as client:
            return client.call(*args)

    @contextlib.contextmanager
    def _brief_client(self) -> Iterator[Client]:
        """Connect a client for one call, so that the code under test never sees it."""
        client = self.client()
        try:
            yield client
        finally:
            client.quit()

    def command(self, name: str, **declaration: Any) -> NoReturn:
        """Raise `RuntimeError`: only a server in this process can have commands in Python."""
        raise RuntimeError(
            f"the command {name} needs a server in this process: pip install punctual-embedded,"
            " and use punctual_embedded.Server"
        )

    def now(self) -> float:
        """Return the time of the server's clock in Unix seconds; see `BaseServer.now`."""
        seconds, micros = self.call("TIME")
        return int(seconds) + int(micros) / 1e6

    def _move_by(self, micros: int) -> float:
        return self._move("ADVANCE", micros)

    def _move_to(self, micros: int) -> float:
        return self._move("SET", micros)

    def _move(self, how: str, micros: int) -> float:
        # The clock must not go back, so a time is rounded up.
        millis = (micros + (500 if how == "ADVANCE" else 999)) // 1000
        with self._brief_client() as client:
            moved, (seconds, rest) = client.pipeline([("CLOCK", how, millis), ("TIME",)])
        if isinstance(moved, CommandError):
            raise _clock_error(moved)
        return int(seconds) + int(rest) / 1e6

    def _check_process(self) -> None:
        if self._is_inherited and self._process is not None:
            parent = self._process.pid
            raise RuntimeError(
                f"this server belongs to process {parent}, and this process is a fork of it:"
                f" clients here may connect to the server, but only process {parent} can start,"
                " stop or query it; create another Server here"
            )

    def _command(self, folder: str | None) -> list[str]:
        words = [program.find(), "--supervised", "parent", "--port", str(self._address[1])]
        if folder is not None:
            words += ["--save", "", "--dir", folder]
        for name, value in self._options.items():
            # Lines like `user ann on >secret` have words of their own, with quotes.
            has_words = name in {"user", "rename-command"}
            words += [f"--{name} {value}"] if has_words else [f"--{name}", value]
        return words

    def _failure(self, log: list[str]) -> Exception:
        """Return the exception for a failed start."""
        text = "\n".join(log)
        # Redis's message: a title, the place, the line in quotes, the reason.
        wrong = re.search(r"FATAL CONFIG FILE ERROR.*\n.*\n>>> '(\S+).*'\n(.*)", text)
        if wrong:
            return ValueError(f"{wrong[1]}: {wrong[2]}")
        last = log[-1] if log else "it has written no log"
        for number in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES):
            if os.strerror(number) in text:
                return OSError(number, f"{os.strerror(number)}: {last}")
        return RuntimeError(f"the server did not start: {last}\nIts log:\n{text}")


def _clock_error(error: CommandError) -> Exception:
    text = str(error)
    if "real" in text:
        return RuntimeError(
            "the clock of this server is real and cannot be advanced: create it with"
            ' clock="virtual"'
        )
    if "out of range" in text:
        return OverflowError("the time exceeds the range of the clock")
    return ValueError(text.partition(" ")[2]) if "back" in text else error


def _stop_dropped(process: _Process, shown: str) -> None:
    """Stop a server that is dropped while it runs."""
    # The arguments do not reference the `Server`, so that it can be dropped.
    if process.pid != os.getpid():
        # `Popen` must not warn about a process that is not a child of this one.
        process.child.returncode = 0
    elif process.child.poll() is None:
        process.end(patience=1)
        warnings.warn(f"not stopped: {shown}", ResourceWarning, stacklevel=2)
