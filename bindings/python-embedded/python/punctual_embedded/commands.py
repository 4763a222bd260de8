"""Own commands of a `Server`: functions of Python, and the thread that runs them.

`Server.command` declares a function. While the server runs, one daemon thread takes the commands
that clients call and runs their functions, one at a time; the event loop that has received a
command waits for its function. The native module's `CommandRequests` is the queue between the loop
and the thread. A function uses the server only by its first argument, an `Invocation`: another call
of the server would wait for the loop that waits for the function, so it raises an exception.

A slow function holds up its loop as a slow script does: after `busy-reply-threshold`, other clients
get the error BUSY, and SCRIPT KILL ends the command, unless it has written. A stop of the server
also ends it. The function itself goes on, and its next call of the server raises an exception.
"""

from __future__ import annotations

import inspect
import logging
import threading
from typing import TYPE_CHECKING, Any

from punctual_server import CommandError

from punctual_embedded._punctual_embedded import CommandRequests, Invocation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Invocation"]

_PATIENCE = 0.2
"""Seconds for which the end of a server waits for a function that still runs."""


def parameters(function: Callable[..., object]) -> tuple[list[str], list[str], str | None]:
    """Return the names of the arguments that a command's function takes after its first one.

    Returns:
        Required arguments, optional arguments, and the name for any further ones.

    Raises:
        TypeError: The function does not take an `Invocation`, or has keyword arguments.
    """
    required, optional, rest = [], [], None
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = parameter.name
        elif parameter.kind in {parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD}:
            if parameter.default is parameter.empty:
                raise TypeError(f"a command has no keyword arguments: {parameter}")
        elif parameter.default is parameter.empty:
            required.append(parameter.name)
        else:
            optional.append(parameter.name)
    if not required:
        raise TypeError("a command's function takes an Invocation as its first argument")
    return required[1:], optional, rest


def positions(keys: int | tuple[int, int, int] | None) -> tuple[int, int, int] | None:
    """Return the positions of the first and the last key, and the distance between two keys."""
    if isinstance(keys, int):
        return (1, keys, 1)
    return keys


def summary(function: Callable[..., object]) -> str:
    """Return the first line of a function's documentation."""
    return (inspect.getdoc(function) or "").partition("\n")[0]


class Runner:
    """The thread that runs the functions of a running server."""

    def __init__(self, functions: Sequence[Callable[..., object]], logger: logging.Logger) -> None:
        self.requests = CommandRequests()
        # The thread must not reference the server, so that the server can be dropped.
        self._thread = threading.Thread(
            target=_serve,
            args=(self.requests, tuple(functions), logger),
            name="punctual-commands",
            daemon=True,
        )
        self._thread.start()

    def end(self) -> None:
        """End the thread. A function that still runs is left alone."""
        self.requests.close()
        if self._thread is not threading.current_thread():
            self._thread.join(_PATIENCE)


def _serve(
    requests: CommandRequests, functions: tuple[Callable[..., object], ...], logger: logging.Logger
) -> None:
    """Run commands until the queue is closed."""
    while True:
        request = requests.next()
        if request is None:
            return
        number, args, invocation = request
        _run(requests, functions[number], invocation, args, logger)


def _run(
    requests: CommandRequests,
    function: Callable[..., Any],
    invocation: Invocation,
    args: tuple[bytes, ...],
    logger: logging.Logger,
) -> None:
    try:
        requests.reply(function(invocation, *args))
    except CommandError as error:
        requests.fail(str(error))
    except BaseException as error:
        # Not even SystemExit ends the thread: the server would have no other one.
        name = getattr(function, "__qualname__", repr(function))
        logger.exception("the function %s of a command has failed", name)
        requests.fail(f"{type(error).__name__}: {error}")
