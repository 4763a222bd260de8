"""Go's features with the names of pygolang: change `golang` to `punctual.golang` in the imports.

- `go` runs a function in a new thread, or in a new greenlet where gevent runs.
- `chan`, `select`, `default` and `nilchan` are those of the package `punctual`.
- `func`, `defer`, `panic` and `recover` run calls when a function ends.
- The modules `punctual.golang.time`, `.sync` and `.context` have the names of pygolang's modules.

docs/from-pygolang.md compares the two packages.
"""

from punctual._punctual import PanicError, chan, default, nilchan, select
from punctual.golang._func import defer, func, panic, recover
from punctual.golang._go import go

__all__ = [
    "PanicError",
    "chan",
    "default",
    "defer",
    "func",
    "go",
    "nilchan",
    "panic",
    "recover",
    "select",
]
