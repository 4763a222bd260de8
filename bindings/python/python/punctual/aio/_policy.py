"""An event loop policy, for programs whose loops are made by asyncio: before Python 3.16, which has no policies."""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING

from punctual.aio._loop import EventLoop

if TYPE_CHECKING:
    _Base = asyncio.DefaultEventLoopPolicy
else:
    with warnings.catch_warnings():
        # Deprecated since Python 3.14, which warns of the name, and once more of every use below.
        warnings.simplefilter("ignore", DeprecationWarning)
        _Base = asyncio.DefaultEventLoopPolicy


class EventLoopPolicy(_Base):
    """asyncio's own policy, except that new event loops are `punctual.aio.EventLoop`s.

    Deprecated by asyncio since Python 3.14 and gone in 3.16: there, pass `punctual.aio.EventLoop` as `loop_factory`.
    """

    def new_event_loop(self) -> EventLoop:
        """A new event loop, which the caller closes."""
        return EventLoop()


def install() -> None:
    """Makes `punctual.aio.EventLoop` the loop of every `asyncio.run` and `asyncio.new_event_loop` to come.

    For programs that cannot pass a `loop_factory`. Warns on Python 3.14 and later, where policies are deprecated.
    """
    asyncio.set_event_loop_policy(EventLoopPolicy())
