"""limits: fixed, moving and sliding windows, costs, statistics, reset, synchronous and with
asyncio.

Packages: limits[redis]
"""

import asyncio
import inspect

import limits
import limits.aio
from verdict import URL, equal, report, step


async def resolve(value):
    return await value if inspect.isawaitable(value) else value


async def program():
    for kind, module, url in (("", limits, URL), ("async ", limits.aio, f"async+{URL}")):
        options = {"implementation": "redispy"} if kind else {}
        store = limits.storage.storage_from_string(url, **options)
        equal(await resolve(store.check()), True)
        for name in ("FixedWindow", "MovingWindow", "SlidingWindowCounter"):
            step(f"{kind}{name}")
            limiter = getattr(module.strategies, f"{name}RateLimiter")(store)
            minute, second = limits.parse("3/minute"), limits.parse("2/second")
            equal(await resolve(limiter.test(minute, "a")), True)
            equal([await resolve(limiter.hit(minute, "a")) for _ in range(4)], [True] * 3 + [False])
            equal(await resolve(limiter.test(minute, "a")), False)
            equal((await resolve(limiter.get_window_stats(minute, "a"))).remaining, 0)
            equal(
                [await resolve(limiter.hit(minute, "b", cost=cost)) for cost in (2, 1, 1)],
                [True, True, False],
            )
            await resolve(limiter.clear(minute, "a"))
            equal(await resolve(limiter.hit(minute, "a")), True)
            while await resolve(limiter.hit(second, name)):
                pass
            while not await resolve(limiter.hit(second, name)):
                await asyncio.sleep(0.02)
            await resolve(store.reset())


if __name__ == "__main__":
    report(program)
