"""gevent's hub: a wait in a thread that runs a hub lets the other greenlets run.

The native module calls `hub` before each wait. gevent is never imported here, so a program without
gevent pays only for a look into `sys.modules`.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["hub", "offload", "spawn", "wait_readable"]

_READ = 1


def hub() -> Any:
    """Return this thread's hub, or None without gevent, without a hub, or in the hub itself."""
    local = sys.modules.get("gevent._hub_local")
    found = None if local is None else local.get_hub_if_exists()
    if found is None or sys.modules["greenlet"].getcurrent() is found:
        return None
    return found


def spawn(f: Callable[..., object], /, *args: Any, **kwargs: Any) -> None:
    """Call `f(*args, **kwargs)` in a new greenlet. Needs a hub."""
    sys.modules["gevent"].spawn(f, *args, **kwargs)


def wait_readable(found: Any, fd: int) -> None:
    """Let other greenlets of the hub run until the file is readable.

    Raises what gevent throws into the greenlet, such as a `gevent.Timeout`.
    """
    watcher = found.loop.io(fd, _READ)
    try:
        found.wait(watcher)
    finally:
        watcher.close()


def offload(f: Callable[[], object]) -> None:
    """Call `f`, whose sockets may block, without blocking other greenlets.

    If gevent has patched the module `socket`, its sockets yield by themselves, and `f` runs here.
    Otherwise `f` runs on a thread of the hub's pool.
    """
    found, monkey = hub(), sys.modules.get("gevent.monkey")
    if found is None or (monkey is not None and monkey.is_module_patched("socket")):
        f()
    else:
        found.threadpool.apply(f)
