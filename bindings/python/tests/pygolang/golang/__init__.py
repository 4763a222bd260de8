"""The names of pygolang's package that its tests import."""

from punctual.golang import PanicError as _PanicError
from punctual.golang import (
    chan,
    default,
    defer,
    func,
    go,
    nilchan,
    panic,
    recover,
    select,
)


def u(text: object) -> str:
    """Decode UTF-8; pygolang's function of this name does more."""
    return text.decode() if isinstance(text, bytes) else str(text)


b = u

__all__ = [
    "_PanicError",
    "b",
    "chan",
    "default",
    "defer",
    "func",
    "go",
    "nilchan",
    "panic",
    "recover",
    "select",
    "u",
]
