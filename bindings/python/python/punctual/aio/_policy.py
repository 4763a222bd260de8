"""An event loop policy, for programs that cannot pass a loop factory. Up to Python 3.15."""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING

from punctual.aio._loop import EventLoop

if TYPE_CHECKING:
    _Base = asyncio.DefaultEventLoopPolicy
else:
    with warnings.catch_warnings():
        # Python 3.14 warns about each use of the name. `install` lets its warning through.
        warnings.simplefilter("ignore", DeprecationWarning)
        _Base = asyncio.DefaultEventLoopPolicy


class EventLoopPolicy(_Base):
    """asyncio's own policy, except that new event loops are `punctual.aio.EventLoop`s.

    Python 3.14 deprecates policies and 3.16 removes them: pass `punctual.aio.EventLoop` as
    `loop_factory` there.
    """

    def new_event_loop(self) -> EventLoop:
        """Create an event loop, which the caller must close."""
        return EventLoop()


def install() -> None:
    """Make future calls of `asyncio.run` and `asyncio.new_event_loop` use `EventLoop`.

    Use it in programs that cannot pass a `loop_factory`. Python 3.14 and later warn about it.
    """
    asyncio.set_event_loop_policy(EventLoopPolicy())
