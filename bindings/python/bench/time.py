"""Timers of `punctual.time` beside uvloop's, asyncio's and pygolang's, and how late they are.

Contenders take turns, round after round, in this process. Figures are medians of the rounds, with
the lowest and the highest; bars are held against the medians of the same run. Rounds are short
where they can be, so that other programs spoil few of them. Memory is measured in a process of its
own for each. Lateness is what it is on this machine just now: close other programs.

pygolang 0.1 starts a thread for each timer, so it gets fewer of them.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import os
import subprocess
import sys
import threading
import time as stdtime
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Callable

from punctual import default, select
from punctual.time import Ticker, Timer, after_func, sleep

from bench.report import Bar, Measure, Report

_OURS = "punctual"
_TOUCHED = "punctual, channel touched"
_WITH_FUNCTION = "punctual, with function"
_MANY_SECONDS = 10_000.0


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument("--rounds", type=int, default=9, help="rounds of each measurement [9]")
    parser.add_argument("--quick", action="store_true", help="a few seconds instead of minutes")
    parser.add_argument("--only", help="measure what has this in its name")
    parser.add_argument("--memory-of", metavar="NAME", help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> None:
    """Measure, and print."""
    if options.memory_of:
        print(_bytes_each(options.memory_of))
        return
    quick = options.quick
    report = Report(options.rounds, options.only)
    print(f"Python {sys.version.split()[0]}, {os.cpu_count()} cores; medians (lowest-highest)")
    _arm_and_stop(report, 10, quick)
    if not quick:
        _arm_and_stop(report, 100_000, quick)
    _arm_and_fire(report, 20_000 if quick else 100_000)
    _memory(report)
    _poller(report, 3.0 if quick else 30.0)
    _sleep_lateness(report, 3.0 if quick else 60.0)
    _ticker_lateness(report, 3.0 if quick else 60.0)
    report.end()


def _peer(name: str) -> Any:
    """Import a module to compare with, if it is installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def _nothing() -> None:
    pass


def _ns_each(begin: int, count: int) -> float:
    return (stdtime.perf_counter_ns() - begin) / count


def _loops() -> dict[str, Any]:
    """Event loops, which stand for what timers of asyncio cost."""
    loops: dict[str, Any] = {}
    uvloop = _peer("uvloop")
    if uvloop is not None:
        loops["uvloop call_later"] = uvloop.new_event_loop()
    loops["asyncio call_later"] = asyncio.SelectorEventLoop()
    return loops


# --- arm and stop ----------------------------------------------------------------------------


def _arm_and_stop(report: Report, live: int, quick: bool) -> None:
    title = f"Timer(10) and stop, {live:,} live"
    if not report.wants(title):
        return
    count, rounds = 2_000, report.rounds * (1 if quick else 5)
    kept: list[Any] = [Timer(_MANY_SECONDS + i) for i in range(live)]
    contenders: dict[str, tuple[Measure, int]] = {
        _OURS: (_ours_stopped, count),
        _TOUCHED: (_ours_touched_stopped, count),
        "punctual, channel polled": (_ours_polled_stopped, count),
        _WITH_FUNCTION: (_ours_with_function_stopped, count),
    }
    loops = _loops()
    for name, loop in loops.items():
        kept.extend(loop.call_later(_MANY_SECONDS + i, _nothing) for i in range(live))
        contenders[name] = (_LoopStopped(loop), count)
    golang = _peer("golang.time")
    if golang is not None and live <= 100:
        kept.extend(golang.Timer(_MANY_SECONDS + i) for i in range(live))
        contenders["pygolang Timer"] = (_GolangStopped(golang), 100)
    gc.freeze()
    bars = [
        Bar(ours, share, peer)
        for ours in (_OURS, _TOUCHED)
        for share, peer in ((0.5, "uvloop call_later"), (0.02, "pygolang Timer"))
    ]
    report.compare(title, contenders, bars if live == 10 else (), rounds)
    gc.unfreeze()
    for timer in kept:
        (timer.stop if hasattr(timer, "stop") else timer.cancel)()
    for loop in loops.values():
        loop.close()


def _ours_stopped(count: int) -> float:
    begin = stdtime.perf_counter_ns()
    for _ in range(count):
        Timer(10).stop()
    return _ns_each(begin, count)


def _ours_touched_stopped(count: int) -> float:
    """Ask for the channel too, as whoever receives from it does."""
    begin = stdtime.perf_counter_ns()
    for _ in range(count):
        timer = Timer(10)
        timer.c  # noqa: B018 - the look itself
        timer.stop()
    return _ns_each(begin, count)


def _ours_polled_stopped(count: int) -> float:
    """Look into the channel, and do not wait."""
    begin = stdtime.perf_counter_ns()
    for _ in range(count):
        timer = Timer(10)
        select(timer.c.recv, default)
        timer.stop()
    return _ns_each(begin, count)


def _ours_with_function_stopped(count: int) -> float:
    begin = stdtime.perf_counter_ns()
    for _ in range(count):
        Timer(10, _nothing).stop()
    return _ns_each(begin, count)


@dataclass
class _LoopStopped:
    loop: Any

    def __call__(self, count: int) -> float:
        return self.loop.run_until_complete(self.measure(count))  # type: ignore[no-any-return]

    async def measure(self, count: int) -> float:
        loop = self.loop
        begin = stdtime.perf_counter_ns()
        for _ in range(count):
            loop.call_later(10, _nothing).cancel()
        return _ns_each(begin, count)


@dataclass
class _GolangStopped:
    golang: Any

    def __call__(self, count: int) -> float:
        new = self.golang.Timer
        begin = stdtime.perf_counter_ns()
        for _ in range(count):
            new(0.05).stop()  # its thread sleeps on
        each = _ns_each(begin, count)
        stdtime.sleep(0.08)  # until all have gone
        return each


# --- arm and fire ----------------------------------------------------------------------------


def _arm_and_fire(report: Report, count: int) -> None:
    title = f"after_func(1 ms), {count:,} armed and fired"
    if not report.wants(title):
        return
    contenders: dict[str, tuple[Measure, int]] = {_OURS: (_Fired(after_func), count)}
    loops = _loops()
    for name, loop in loops.items():
        contenders[name] = (_LoopFired(loop), count)
    golang = _peer("golang.time")
    if golang is not None:
        contenders["pygolang after_func"] = (_Fired(golang.after_func), 2_000)
    report.compare(title, contenders, [Bar(_OURS, 0.05, "pygolang after_func")])
    for loop in loops.values():
        loop.close()


@dataclass
class _Fired:
    after_func: Callable[[float, Callable[[], None]], object]

    def __call__(self, count: int) -> float:
        after_func = self.after_func
        fired: list[None] = []
        over = threading.Event()
        # `append` is atomic, whichever threads call; the last to be called ends it.
        note, last = fired.append, count - 1

        def call() -> None:
            note(None)
            if len(fired) > last:
                over.set()

        begin = stdtime.perf_counter_ns()
        for _ in range(count):
            after_func(0.001, call)
        over.wait()
        return _ns_each(begin, count)


@dataclass
class _LoopFired:
    loop: Any

    def __call__(self, count: int) -> float:
        return self.loop.run_until_complete(self.measure(count))  # type: ignore[no-any-return]

    async def measure(self, count: int) -> float:
        loop = self.loop
        over = loop.create_future()
        fired: list[None] = []
        note, last = fired.append, count - 1

        def call() -> None:
            note(None)
            if len(fired) > last:
                over.set_result(None)

        begin = stdtime.perf_counter_ns()
        for _ in range(count):
            loop.call_later(0.001, call)
        await over
        return _ns_each(begin, count)


# --- memory ----------------------------------------------------------------------------------


def _memory(report: Report) -> None:
    title = "bytes a timer, its channel included"
    if not report.wants(title):
        return
    names = [_OURS, _WITH_FUNCTION, "asyncio call_later"]
    if _peer("uvloop") is not None:
        names.insert(2, "uvloop call_later")
    if _peer("golang.time") is not None:
        names.append("pygolang Timer")
    for name in names:
        command = [sys.executable, "-m", "bench", "time", "--memory-of", name]
        answer = subprocess.run(command, check=True, capture_output=True, text=True)
        each = float(answer.stdout)
        report.line(name, f"{each:10,.0f} bytes")
        if name == _OURS:
            report.bar(title, f"{each:.0f} bytes", each <= 250, "<= 250")


def _bytes_each(name: str) -> float:
    """How much the process grows by a timer; in a process that does nothing else."""
    make: Callable[[int], object]
    count = 400_000
    if name == _OURS:

        def make(i: int) -> object:
            timer = Timer(_MANY_SECONDS + i)
            return timer, timer.c

    elif name == _WITH_FUNCTION:
        make = lambda i: Timer(_MANY_SECONDS + i, _nothing)  # noqa: E731
    elif name == "pygolang Timer":
        count = 1_000
        golang = _peer("golang.time")
        make = lambda i: golang.Timer(1 + i / 1000)  # noqa: E731
    else:
        loop = _loops()[name]
        make = lambda i: loop.call_later(_MANY_SECONDS + i, _nothing)  # noqa: E731
    kept: list[object] = [None] * count
    make(0)
    gc.collect()
    before = _resident()
    for i in range(count):
        kept[i] = make(i)
    grown = _resident() - before
    # What holds the pair is ours, not the timer's.
    pair = sys.getsizeof((1, 2)) if name == _OURS else 0
    os.write(1, f"{grown / count - pair}\n".encode())
    os._exit(0)  # frees nothing: it would take longer than the measurement


def _resident() -> int:
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS, the most ever


# --- the poller ------------------------------------------------------------------------------


def _poller(report: Report, seconds: float) -> None:
    title = f"poller: 1,000 timers a second armed and stopped, {seconds:g} s"
    if not report.wants(title):
        return
    slices = 10
    polls = int(seconds * 1000 / slices)
    alone, polled = 0.0, 0.0
    for _ in range(slices):
        alone += _cpu_of(polls, _sleep_alone)
        polled += _cpu_of(polls, _poll)
    report.line("sleep alone", f"{alone / seconds * 100:6.2f} % of a core")
    report.line("with timers", f"{polled / seconds * 100:6.2f} % of a core")
    report.bar(title, f"{polled / alone:.3f}x", polled <= 1.2 * alone, "<= 1.2x")


def _cpu_of(polls: int, poll: Callable[[], None]) -> float:
    """CPU seconds of the process, all its threads."""
    begin = stdtime.process_time()
    for _ in range(polls):
        poll()
    return stdtime.process_time() - begin


def _sleep_alone() -> None:
    sleep(0.001)


def _poll() -> None:
    timer = Timer(1)
    sleep(0.001)
    timer.stop()


# --- lateness --------------------------------------------------------------------------------


def _percentile(sorted_values: Sequence[float], share: float) -> float:
    return sorted_values[min(len(sorted_values) - 1, int(share * len(sorted_values)))]


def _late_line(report: Report, name: str, late: Sequence[float]) -> float:
    ordered = sorted(late)
    p50, p99 = _percentile(ordered, 0.5), _percentile(ordered, 0.99)
    report.line(
        name, f"p50 {p50 * 1e3:.3f} ms   p99 {p99 * 1e3:.3f} ms   max {ordered[-1] * 1e3:.3f} ms"
    )
    return p99


def _sleep_lateness(report: Report, seconds: float) -> None:
    title = f"lateness of sleep(1 to 20 ms), {seconds:g} s"
    if not report.wants(title):
        return
    late: dict[str, list[float]] = {_OURS: [], "time.sleep": []}
    end = stdtime.perf_counter() + seconds
    step = 0
    while stdtime.perf_counter() < end:
        step += 1
        dt = (1 + step * 7 % 20) / 1000
        for name, wait in ((_OURS, sleep), ("time.sleep", stdtime.sleep)):
            begin = stdtime.perf_counter()
            wait(dt)
            late[name].append(stdtime.perf_counter() - begin - dt)
    p99 = _late_line(report, _OURS, late[_OURS])
    _late_line(report, "time.sleep", late["time.sleep"])
    report.bar(title, f"p99 {p99 * 1e3:.3f} ms", p99 <= 0.3e-3, "<= 0.3 ms")


def _ticker_lateness(report: Report, seconds: float) -> None:
    title = f"lateness of Ticker(10 ms), {seconds:g} s"
    if not report.wants(title):
        return
    period = 0.01
    ticks: list[float] = []
    slept: list[float] = []
    Ticker(period).stop()  # the timers' thread is not started in between
    begin = stdtime.perf_counter()
    ticker = Ticker(period)
    # Not before: what comes between would count as lateness.
    peer = threading.Thread(target=_sleep_to_multiples, args=(begin, period, seconds, slept))
    peer.start()
    receive = ticker.c.recv
    while not ticks or ticks[-1] < seconds:
        receive()
        ticks.append(stdtime.perf_counter() - begin)
    ticker.stop()
    peer.join()
    # A tick is late by what it is after the last multiple of the period.
    late = [tick % period for tick in ticks]
    p99 = _late_line(report, _OURS, late)
    _late_line(report, "time.sleep to the next", slept)
    tenth = max(1, len(late) // 10)
    drift = median(late[-tenth:]) - median(late[:tenth])
    skipped = round(ticks[-1] / period) - len(ticks)
    report.line(
        "drift", f"{drift * 1e6:+.1f} us from the first tenth to the last, {skipped} skipped"
    )
    report.bar(title, f"p99 {p99 * 1e3:.3f} ms", p99 <= 0.3e-3, "<= 0.3 ms")
    report.bar(title, f"drift {drift * 1e6:+.1f} us", abs(drift) <= 0.1e-3, "within 100 us")


def _sleep_to_multiples(begin: float, period: float, seconds: float, late: list[float]) -> None:
    """Do by hand what a ticker does, between its ticks: sleep until the next multiple."""
    elapsed = 0.0
    while elapsed < seconds:
        due = (elapsed // period + 1.5) * period
        stdtime.sleep(max(0.0, begin + due - stdtime.perf_counter()))
        elapsed = stdtime.perf_counter() - begin
        late.append(elapsed - due)
