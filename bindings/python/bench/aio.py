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
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from statistics import median
from typing import Any, Callable, Union

from punctual.aio import EventLoop

from bench.report import Bar, Report

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
    report = Report(options.rounds, options.only)
    for title, unit, measure, bar in measurements(options.live):
        if not report.wants(title):
            continue
        figures = measure(loops, options.rounds)
        report.figures(title, unit, figures, [bar] if isinstance(bar, Bar) else ())
        if isinstance(bar, float):
            ours = median(figures[_OURS])
            report.bar(title, f"{ours:.2f} {unit}", ours <= bar, f"<= {bar:g} {unit}")
    report.end()


def contenders() -> dict[str, Callable[[], Loop]]:
    """Tell who takes part: names, and what makes their loops."""
    loops: dict[str, Callable[[], Loop]] = {_OURS: EventLoop, _DEFAULT: asyncio.SelectorEventLoop}
    try:
        uvloop: Any = importlib.import_module("uvloop")
    except ImportError:
        print("uvloop is not here: pip install uvloop to have it in the table")
    else:
        loops["uvloop"] = uvloop.new_event_loop
    return loops


Measure = Callable[[dict[str, Callable[[], Loop]], int], Figures]
Row = tuple[str, str, Measure, Union[float, Bar, None]]


def measurements(live: int) -> list[Row]:
    """List what is measured: what it is, in which unit, how, and the bar.

    A bar is the most that ours may take, as a number or as a share of what the default loop takes.
    """
    rows: list[Row] = []
    for count in sorted({10, 10_000, live}):
        # Enough for the default loop to sweep its heap a few times.
        churn = _Churn(live=count, timers=max(100_000, 2 * count))
        bar = Bar(of=_OURS, share=0.5, peer=_DEFAULT) if count == live else None
        rows.append((f"call_later + cancel, {count:,} live", "ns", churn, bar))
    rows += [
        ("call_later, armed and fired", "ns", _each_round(_fired, 100_000), None),
        ("asyncio.sleep(0): a turn without timers", "ns", _each_round(_turns, 50_000), None),
        ("call_later(0): a turn with one", "ns", _each_round(_timer_turns, 20_000), None),
    ]
    if hasattr(asyncio, "timeout"):
        rows.append(("asyncio.timeout, body ready", "ns", _each_round(_timeouts, 50_000), None))
    waits = Bar(of=_OURS, share=0.8, peer=_DEFAULT)
    longest = _Churn(live=live, timers=2 * live, longest_turn=True)
    rows += [
        ("asyncio.wait_for, pending once", "ns", _each_round(_wait_for, 20_000), waits),
        ("sleep(1 to 20 ms) late, median", "us", _each_round(_late_median, 150), None),
        ("sleep(1 to 20 ms) late, p99", "us", _each_round(_late_p99, 150), 300.0),
        (f"longest turn, arm + cancel, {live:,} live", "ms", longest, 5.0),
        (f"longest turn, {live:,} due at once", "ms", _each_round(_burst, live), 5.0),
        (f"memory after {10 * live:,} arm + cancel", "MB", _memories(live), 1.0),
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
