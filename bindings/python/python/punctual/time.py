"""Timers with the names of pygolang and the semantics of Go's package time.

- `now` returns the time; `sleep` blocks for a time.
- `Timer` and `after` send the time into a channel once, `Ticker` and `tick` repeatedly;
  `after_func` calls a function.
- `VirtualTime` is a clock that tests advance instead of waiting.

Times are floats of seconds, written as `5 * millisecond`, for example. Channels are
`punctual.chan`; `punctual.select` waits for several channels.
"""

from typing import Final

from punctual._punctual import (
    Ticker,
    Timer,
    VirtualTime,
    after,
    after_func,
    now,
    sleep,
    tick,
)

__all__ = [
    "Ticker",
    "Timer",
    "VirtualTime",
    "after",
    "after_func",
    "hour",
    "microsecond",
    "millisecond",
    "minute",
    "nanosecond",
    "now",
    "second",
    "sleep",
    "tick",
]

nanosecond: Final = 1e-9
microsecond: Final = 1e-6
millisecond: Final = 1e-3
second: Final = 1.0
minute: Final = 60.0
hour: Final = 3600.0
