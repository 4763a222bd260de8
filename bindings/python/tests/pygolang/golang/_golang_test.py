"""Support of pygolang's tests of channels. Its tests in C++ link its own library."""

import contextlib
import signal
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Optional

from punctual import PanicError, chan
from punctual._punctual import _waiting


def pylen_recvq(c: "chan[Any]") -> int:
    return _waiting(c)[0]


def pylen_sendq(c: "chan[Any]") -> int:
    return _waiting(c)[1]


def pywaitBlocked(method: Callable[..., object]) -> None:  # noqa: N802
    """Waits until a thread waits in `c.recv` or `c.send`."""
    c: chan[Any] = method.__self__  # type: ignore[attr-defined]
    waiting = {"recv": pylen_recvq, "send": pylen_sendq}[method.__name__]
    end = time.monotonic() + 30
    while waiting(c) == 0:
        assert time.monotonic() < end, "no thread waits"
        time.sleep(0)


@contextlib.contextmanager
def pypanicWhenBlocked() -> Iterator[None]:  # noqa: N802
    """Raises `PanicError` in an operation that blocks forever.

    pygolang has a hook in its library. Here a signal arrives every 20 ms, and its handler raises
    the error if the program has stood still at one instruction since the last signal.
    """
    last: Any = None

    def check(_: int, frame: Optional[FrameType]) -> None:
        nonlocal last
        here = frame and (frame, frame.f_lasti)
        last, before = here, last
        if here == before:
            last = None
            raise PanicError("t: blocks forever")

    previous = signal.signal(signal.SIGALRM, check)
    signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def _recv(c: "chan[Any]") -> Any:
    return c.recv()


def _send(c: "chan[Any]", item: object) -> None:
    c.send(item)


def _close(c: "chan[Any]") -> None:
    c.close()


# In pygolang these functions use the channel from C++.
for _type in ("structZ", "bool", "int", "double"):
    globals().update(
        {
            f"pychan_{_type}_recv": _recv,
            f"pychan_{_type}_send": _send,
            f"pychan_{_type}_close": _close,
        }
    )
