"""Timers with the names and meanings of Go's package time, as pygolang has them for Python.

- `now` gives the time, `sleep` waits.
- `Timer` and `after` send the time once into a channel, `Ticker` and `tick` again and again;
  `after_func` calls a function.
- `VirtualTime` is a clock for tests, which is advanced instead of waited for.

Times are floats of seconds; `5 * millisecond` reads well. Channels are `punctual.chan`, and
`punctual.select` waits for several at once.
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
