"""Timers of asyncio: `punctual.aio.EventLoop` beside the default loop, and uvloop if it is there.

Contenders take turns, round after round, each with a loop of its own that keeps its timers. Figures
are medians of the rounds, with the lowest and the highest; a bar is held against the default loop's
median or against a number of its own. Python's garbage collector is left as it is; what was armed
before a measurement is frozen, so that no contender pays for another's objects.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Coroutine, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Callable

from punctual.aio import EventLoop

# What was measured of each contender: one figure a round.
Figures = dict[str, list[float]]
Loop = asyncio.AbstractEventLoop

_DEFAULT = "default"
_OURS = "punctual"
_PER_TURN = 1_000
_LATER = 3_600.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each measurement [5]")
    parser.add_argument(
        "--live", type=int, default=1_000_000, help="the largest number of armed timers [1000000]"
    )
    parser.add_argument("--only", help="measure what has this in its name")
    parser.add_argument("--memory-of", metavar="LOOP", help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> None:
    """Measure, and print."""
    if options.memory_of:
        print(json.dumps(_memory(options.memory_of, 10 * options.live)))
        return
    loops = contenders()
    names = ", ".join(loops)
    print(f"Python {sys.version.split()[0]}; {names}; {options.rounds} rounds")
    table = Table(list(loops))
    for title, bar, measure in measurements(options.live):
        if options.only is None or options.only in title:
            table.add(title, bar, measure(loops, options.rounds))
    table.end()


def contenders() -> dict[str, Callable[[], Loop]]:
    """Tell who takes part: names, and what makes their loops."""
    loops: dict[str, Callable[[], Loop]] = {_DEFAULT: asyncio.SelectorEventLoop, _OURS: EventLoop}
    try:
        uvloop: Any = importlib.import_module("uvloop")
    except ImportError:
        print("uvloop is not here: pip install uvloop to have it in the table")
    else:
        loops["uvloop"] = uvloop.new_event_loop
    return loops


@dataclass
class Bar:
    """What our figure must not be above: a share of the default loop's, or a number."""

    share: float | None = None
    most: float | None = None

    def verdict(self, ours: float, default: float) -> str:
        """Tell whether a figure is below the bar, and what the bar is."""
        if self.share is not None:
            bar, text = self.share * default, f"<= {self.share:g}x default"
        elif self.most is not None:
            bar, text = self.most, f"<= {self.most:g}"
        else:
            return ""
        return f"{'PASS' if ours <= bar else 'MISS'} {text}"


@dataclass
class Table:
    """The figures, printed as they come."""

    names: Sequence[str]
    missed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        columns = "".join(f"{name:>24}" for name in self.names)
        print(f"\n{'':<44}{columns}{'ours/default':>14}  bar")

    def add(self, title: str, bar: Bar, figures: Figures) -> None:
        """Print one line: the median of each contender, and the lowest and highest."""
        middle = {name: median(values) for name, values in figures.items()}
        columns = "".join(
            f"{_show(middle[name]):>9}"
            + f"{'(' + _show(min(figures[name])) + '-' + _show(max(figures[name])) + ')':>15}"
            if name in figures
            else f"{'-':>24}"
            for name in self.names
        )
        ours, default = middle[_OURS], middle.get(_DEFAULT, 0.0)
        ratio = f"{ours / default:.2f}x" if default else "-"
        verdict = bar.verdict(ours, default)
        if verdict.startswith("MISS"):
            self.missed.append(title)
        print(f"{title:<44}{columns}{ratio:>14}  {verdict}", flush=True)

    def end(self) -> None:
        """Print what was missed."""
        print(f"\nmissed: {', '.join(self.missed)}" if self.missed else "\nall bars passed")


def _show(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


Measure = Callable[[dict[str, Callable[[], Loop]], int], Figures]


def measurements(live: int) -> list[tuple[str, Bar, Measure]]:
    """List what is measured: what it is and in which unit, its bar, and how."""
    rows: list[tuple[str, Bar, Measure]] = []
    for count in sorted({10, 10_000, live}):
        bar = Bar(share=0.5) if count == live else Bar()
        # Enough for the default loop to sweep its heap a few times.
        churn = _Churn(live=count, timers=max(100_000, 2 * count))
        rows.append((f"call_later + cancel, {count:,} live, ns", bar, churn))
    rows += [
        ("call_later, armed and fired, ns", Bar(), _each_round(_fired, 100_000)),
        ("asyncio.sleep(0): a turn without timers, ns", Bar(), _each_round(_turns, 50_000)),
        ("call_later(0): a turn with one, ns", Bar(), _each_round(_timer_turns, 20_000)),
    ]
    if hasattr(asyncio, "timeout"):
        rows.append(("asyncio.timeout, body ready, ns", Bar(), _each_round(_timeouts, 50_000)))
    rows += [
        ("asyncio.wait_for, pending once, ns", Bar(), _each_round(_wait_for, 20_000)),
        ("sleep(1 to 20 ms) late, median, us", Bar(), _each_round(_late_median, 150)),
        ("sleep(1 to 20 ms) late, p99, us", Bar(most=300.0), _each_round(_late_p99, 150)),
        (
            f"longest turn, arm + cancel, {live:,} live, ms",
            Bar(most=5.0),
            _Churn(live=live, timers=2 * live, longest_turn=True),
        ),
        (f"longest turn, {live:,} due at once, ms", Bar(most=5.0), _each_round(_burst, live)),
        (f"memory after {10 * live:,} arm + cancel, MB", Bar(most=1.0), _memories(live)),
    ]
    return rows


def _nothing() -> None:
    pass


async def _churn(timers: int) -> float:
    """Arm and cancel, so many in each turn; the nanoseconds for one."""
    call_later = asyncio.get_running_loop().call_later
    begun = time.perf_counter()
    for _ in range(timers // _PER_TURN):
        for _ in range(_PER_TURN):
            call_later(10.0, _nothing).cancel()
        await asyncio.sleep(0)
    return (time.perf_counter() - begun) / timers * 1e9


async def _gaps(work: Awaitable[object]) -> float:
    """Tell the longest turn while something is done, in milliseconds.

    In time of the processor, so that other programs do not lengthen it: no turn sleeps.
    """
    task = asyncio.ensure_future(work)
    longest, before = 0.0, time.thread_time()
    while not task.done():
        await asyncio.sleep(0)
        now = time.thread_time()
        longest, before = max(longest, now - before), now
    return longest * 1e3


@dataclass
class _Churn:
    """Arming and cancelling beside timers that stay armed; the loops live through all rounds."""

    live: int
    timers: int
    longest_turn: bool = False

    def __call__(self, loops: dict[str, Callable[[], Loop]], rounds: int) -> Figures:
        figures: Figures = {name: [] for name in loops}
        ready = {name: make() for name, make in loops.items()}
        for loop in ready.values():
            for number in range(self.live):
                loop.call_later(_LATER + number * 1e-3, _nothing)
        gc.collect()
        gc.freeze()
        try:
            for round_ in range(rounds + 1):
                for name, loop in ready.items():
                    work: Coroutine[Any, Any, float] = _churn(self.timers)
                    value = loop.run_until_complete(_gaps(work) if self.longest_turn else work)
                    # The first is for warming up.
                    if round_ > 0:
                        figures[name].append(value)
        finally:
            gc.unfreeze()
            for loop in ready.values():
                loop.close()
        gc.collect()
        return figures


def _each_round(work: Callable[[int], Coroutine[Any, Any, float]], count: int) -> Measure:
    """Measure with new loops in each round."""

    def measure(loops: dict[str, Callable[[], Loop]], rounds: int) -> Figures:
        figures: Figures = {name: [] for name in loops}
        for round_ in range(rounds + 1):
            for name, make in loops.items():
                loop = make()
                try:
                    value = loop.run_until_complete(work(count))
                finally:
                    loop.close()
                gc.collect()
                if round_ > 0:
                    figures[name].append(value)
        return figures

    return measure


async def _fired(timers: int) -> float:
    loop = asyncio.get_running_loop()
    done = loop.create_future()
    begun = time.perf_counter()
    for _ in range(timers - 1):
        loop.call_later(0.001, _nothing)
    loop.call_later(0.001, done.set_result, None)
    await done
    return (time.perf_counter() - begun) / timers * 1e9


async def _turns(turns: int) -> float:
    begun = time.perf_counter()
    for _ in range(turns):
        await asyncio.sleep(0)
    return (time.perf_counter() - begun) / turns * 1e9


async def _timer_turns(turns: int) -> float:
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def again(left: int) -> None:
        if left:
            loop.call_later(0, again, left - 1)
        else:
            done.set_result(None)

    begun = time.perf_counter()
    again(turns)
    await done
    return (time.perf_counter() - begun) / turns * 1e9


async def _timeouts(times: int) -> float:
    timeout: Any = asyncio.timeout  # type: ignore[attr-defined, unused-ignore]
    begun = time.perf_counter()
    for number in range(times):
        async with timeout(10.0):
            pass
        if number % 100 == 0:
            await asyncio.sleep(0)
    return (time.perf_counter() - begun) / times * 1e9


async def _wait_for(times: int) -> float:
    async def pending_once() -> None:
        await asyncio.sleep(0)

    begun = time.perf_counter()
    for _ in range(times):
        await asyncio.wait_for(pending_once(), 10.0)
    return (time.perf_counter() - begun) / times * 1e9


async def _late(sleeps: int) -> list[float]:
    """Sleep, one sleep after another; by how many microseconds each ended late, sorted."""
    chance = random.Random(sleeps)
    late = []
    for _ in range(sleeps):
        delay = chance.uniform(0.001, 0.020)
        # Not the loop's clock: uvloop's shows milliseconds.
        begun = time.perf_counter()
        await asyncio.sleep(delay)
        late.append((time.perf_counter() - begun - delay) * 1e6)
    return sorted(late)


async def _late_median(sleeps: int) -> float:
    return median(await _late(sleeps))


async def _late_p99(sleeps: int) -> float:
    late = await _late(sleeps)
    return late[len(late) * 99 // 100]


async def _burst(timers: int) -> float:
    """Have all timers fall due at once; the longest time until other callbacks were called."""
    loop = asyncio.get_running_loop()
    when = loop.time()
    for _ in range(timers):
        loop.call_at(when, _nothing)
    gc.collect()
    gc.freeze()

    async def until_all_fired() -> None:
        done = loop.create_future()
        loop.call_at(when, done.set_result, None)
        await done

    try:
        return await _gaps(until_all_fired())
    finally:
        gc.unfreeze()


def _memories(live: int) -> Measure:
    """Measure memory, in a process for each loop."""

    def measure(loops: dict[str, Callable[[], Loop]], _rounds: int) -> Figures:
        figures: Figures = {}
        for name in loops:
            command = ["aio", "--memory-of", name, "--live", str(live)]
            process = subprocess.run(
                [sys.executable, "-m", "bench", *command],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            figures[name] = [json.loads(process.stdout.splitlines()[-1])]
        return figures

    return measure


def _memory(name: str, timers: int) -> float:
    """Arm and cancel beside 1,000 live timers; by how many MB the process grew at its largest."""
    loop = contenders()[name]()
    for _ in range(1_000):
        loop.call_later(_LATER, _nothing)
    loop.run_until_complete(_churn(100_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    loop.run_until_complete(_churn(timers))
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    loop.close()
    # Kilobytes on Linux, bytes on macOS.
    return (after - before) / (1024 if sys.platform != "darwin" else 1024 * 1024)
