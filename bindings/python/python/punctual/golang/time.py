"""`punctual.time` under the name of pygolang's module `golang.time`."""

from punctual.time import (
    Ticker,
    Timer,
    after,
    after_func,
    hour,
    microsecond,
    millisecond,
    minute,
    nanosecond,
    now,
    second,
    sleep,
    tick,
)

__all__ = [
    "Ticker",
    "Timer",
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
