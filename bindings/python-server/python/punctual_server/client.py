"""`Client`: a connection to a server, with replies of RESP3 as objects of Python.

It has the methods of the client of `punctual_embedded`. Programs use a Redis client; this one is
for `Server` itself, and for tests that need no other library.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Union

__all__ = ["Client", "CommandError"]

_Argument = Union[bytes, str, int, float, bytearray, memoryview]

_RESHAPES_REPLIES = {b"HELLO", b"RESET", b"MONITOR", b"SYNC", b"PSYNC", b"REPLCONF"}
"""Commands that change how many replies follow, or their form. So does CLIENT REPLY."""


class CommandError(Exception):
    """The server has replied with an error."""


class _Push(list):  # type: ignore[type-arg]
    """A message of a subscription, or another reply that no command has asked for."""


class Client:
    """A connection to a server, with a session of its own.

    `Server.client` connects it. Several threads may use it; their calls run one after the other.
    Dropping it disconnects it. Replies have the types of RESP3: `bytes`, `int`, `float`, `bool`,
    `None`, `list`, `set` and `dict`.

    Args:
        address: Host and port, or the path of a unix socket.
        password: The password of the default user, if it needs one.

    Raises:
        CommandError: The server refuses the connection or the password.
        OSError: The server cannot be reached.
    """

    def __init__(self, address: tuple[str, int] | str, password: bytes | None = None) -> None:
        if isinstance(address, str):
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(address)
        else:
            self._socket = socket.create_connection(address)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._lock = threading.Lock()
        self._input = b""
        self._messages: deque[list[Any]] = deque()
        login: tuple[_Argument, ...] = () if password is None else ("AUTH", "default", password)
        (reply,) = self._run([_words(("HELLO", 3, *login))])
        if isinstance(reply, CommandError):
            self.close()
            raise reply

    def call(self, *args: _Argument) -> Any:
        """Run a command, and return its reply.

        Blocks while a blocking command, such as BLPOP, waits.

        Raises:
            CommandError: The server has replied with an error.
            RuntimeError: The server has stopped, or has closed the connection.
            ValueError: The command changes the form of later replies, such as MONITOR.
        """
        (reply,) = self.pipeline([args])
        if isinstance(reply, CommandError):
            raise reply
        return reply

    def pipeline(self, commands: Iterable[Sequence[_Argument]]) -> list[Any]:
        """Run several commands at once, and return their replies.

        An error is in the list, as a `CommandError` that is not raised.
        """
        words = [_words(command) for command in commands]
        for command in words:
            if not command:
                raise ValueError("a command needs a name")
            name = command[0].upper()
            is_client_reply = name == b"CLIENT" and [w.upper() for w in command[1:2]] == [b"REPLY"]
            if name in _RESHAPES_REPLIES or is_client_reply:
                raise ValueError(
                    f"{name.decode()} changes the form of the following replies; it needs a"
                    " connection of another client"
                )
        return self._run(words)

    def message(self, timeout: float | None = None) -> Any:
        """Return the next message of a subscription, or `None` after `timeout` seconds without one.

        Raises:
            RuntimeError: The server has stopped, or has closed the connection.
        """
        end = None if timeout is None else time.monotonic() + timeout
        with self._lock, self._closed_at_errors():
            while not self._messages:
                left = None if end is None else max(0.0, end - time.monotonic())
                try:
                    self._read_to_messages(left)
                except (TimeoutError, BlockingIOError, socket.timeout):
                    return None
            return self._messages.popleft()

    def close(self) -> None:
        """Disconnect the client."""
        self._socket.close()

    def quit(self) -> None:
        """Disconnect the client. When this returns, the server has forgotten it as well."""
        with contextlib.suppress(OSError):
            self._socket.sendall(_encode([b"QUIT"]))
            while self._socket.recv(65536):
                pass
        self.close()

    def _run(self, commands: list[list[bytes]]) -> list[Any]:
        request = b"".join(_encode(command) for command in commands)
        with self._lock, self._closed_at_errors():
            self._socket.settimeout(None)
            self._socket.sendall(request)
            return [self._reply(command[0].upper()) for command in commands]

    def _reply(self, name: bytes) -> Any:
        while True:
            value = self._value()
            if not isinstance(value, _Push):
                return value
            # The reply to SUBSCRIBE and the like is a message as well.
            if name.endswith(b"SUBSCRIBE") and value[0].endswith(b"subscribe"):
                return list(value)
            self._messages.append(list(value))

    def _read_to_messages(self, timeout: float | None) -> None:
        """Read a message. Only its first byte may take up to `timeout` seconds to arrive."""
        if not self._input:
            self._socket.settimeout(timeout)
            self._receive()
        self._socket.settimeout(None)
        value = self._value()
        if isinstance(value, _Push):
            self._messages.append(list(value))

    @contextlib.contextmanager
    def _closed_at_errors(self) -> Iterator[None]:
        """Disconnect if a call ends in the middle of a reply."""
        try:
            yield
        except OSError as error:
            self.close()
            raise RuntimeError(
                "the server is not running, or has closed this client; connect another one"
            ) from error
        except BaseException:
            self.close()
            raise

    def _receive(self) -> None:
        received = self._socket.recv(65536)
        if not received:
            raise ConnectionError("the connection is closed")
        self._input += received

    def _take(self, length: int) -> bytes:
        while len(self._input) < length:
            self._receive()
        taken, self._input = self._input[:length], self._input[length:]
        return taken

    def _line(self) -> bytes:
        while b"\r\n" not in self._input:
            self._receive()
        line, _, self._input = self._input.partition(b"\r\n")
        return line

    def _value(self) -> Any:
        line = self._line()
        kind, text = line[:1], line[1:]
        if kind in b"$=!":
            if text == b"-1":
                return None
            data = self._take(int(text) + 2)[:-2]
            if kind == b"!":
                return CommandError(data.decode(errors="replace"))
            # A verbatim string begins with its format: `txt:`.
            return data[4:] if kind == b"=" else data
        if kind in b"*~>%|":
            return self._collection(kind, int(text))
        if kind == b"+":
            return text
        if kind == b"-":
            return CommandError(text.decode(errors="replace"))
        if kind in b":(":
            return int(text)
        if kind == b",":
            return float(text)
        if kind == b"#":
            return text == b"t"
        return None

    def _collection(self, kind: bytes, length: int) -> Any:
        if length < 0:
            return None
        if kind in b"%|":
            pairs = {self._value(): self._value() for _ in range(length)}
            # Attributes describe the value that follows them.
            return self._value() if kind == b"|" else pairs
        items = [self._value() for _ in range(length)]
        if kind == b">":
            return _Push(items)
        if kind == b"~":
            # A set with members that Python cannot hash becomes a list.
            with contextlib.suppress(TypeError):
                return set(items)
        return items

    def __del__(self) -> None:
        # `_socket` is missing if the connection has failed.
        with contextlib.suppress(AttributeError):
            self._socket.close()


def _words(args: Sequence[_Argument]) -> list[bytes]:
    return [_word(arg) for arg in args]


def _word(arg: object) -> bytes:
    if isinstance(arg, (bytes, bytearray, memoryview)):
        return bytes(arg)
    if isinstance(arg, str):
        return arg.encode()
    if isinstance(arg, (int, float)) and not isinstance(arg, bool):
        return repr(arg).encode()
    raise TypeError(f"an argument must be bytes, str, int or float, not {type(arg).__name__}")


def _encode(words: list[bytes]) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(w), w) for w in words)
