"""asyncio on a timing wheel: an event loop with cheap timeouts.

    import asyncio, punctual.aio

    punctual.aio.run(main())                               # like asyncio.run(main())
    asyncio.Runner(loop_factory=punctual.aio.EventLoop)    # step by step, from Python 3.11 on

`EventLoop` is `asyncio.SelectorEventLoop` with other timers: `call_later`, `call_at`, and therefore
`asyncio.sleep`, `asyncio.timeout` and `asyncio.wait_for`. It has a virtual clock for tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from punctual.aio._loop import EventLoop, new_event_loop
from punctual.aio._run import run

if TYPE_CHECKING:
    from punctual.aio._policy import EventLoopPolicy, install

__all__ = ["EventLoop", "EventLoopPolicy", "install", "new_event_loop", "run"]


def __getattr__(name: str) -> Any:
    # Imported on demand: Python 3.14 warns about policies, and 3.16 lacks them.
    if name not in ("EventLoopPolicy", "install"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from punctual.aio import _policy
    except AttributeError:
        raise AttributeError(
            "this Python has no event loop policies: pass punctual.aio.EventLoop as loop_factory"
        ) from None
    return getattr(_policy, name)
