"""An event loop policy, for programs whose loops asyncio makes: not from Python 3.16 on."""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING

from punctual.aio._loop import EventLoop

if TYPE_CHECKING:
    _Base = asyncio.DefaultEventLoopPolicy
else:
    with warnings.catch_warnings():
        # Python 3.14 warns of the name; who uses a policy hears of it in `install`.
        warnings.simplefilter("ignore", DeprecationWarning)
        _Base = asyncio.DefaultEventLoopPolicy


class EventLoopPolicy(_Base):
    """asyncio's own policy, except that new event loops are `punctual.aio.EventLoop`s.

    asyncio has deprecated policies since Python 3.14 and has none from 3.16 on: pass
    `punctual.aio.EventLoop` as `loop_factory` there.
    """

    def new_event_loop(self) -> EventLoop:
        """Make a new event loop, which the caller closes."""
        return EventLoop()


def install() -> None:
    """Make `EventLoop` the loop of every `asyncio.run` and `asyncio.new_event_loop` to come.

    It is for programs that cannot pass a `loop_factory`. Python 3.14 and later warn of it.
    """
    asyncio.set_event_loop_policy(EventLoopPolicy())
