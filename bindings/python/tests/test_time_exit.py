"""The end of the interpreter with armed timers and running functions.

Each of the `PROGRAMS` must end by itself, soon, with exit code 0 and without output.
"""

from __future__ import annotations

import subprocess
import sys

import pytest
from patience import ends_silently

PROGRAMS = {
    "no timers": "",
    "armed": """
        timers = [Timer(0.01 * i) for i in range(100)], [Ticker(0.001) for _ in range(10)]
        for i in range(100):
            after_func(0.001 * i, print_nothing)
            after(0.001 * i)
    """,
    "in a cycle": """
        class Owner: pass
        owner = Owner()
        owner.timer, owner.ticker, owner.owner = Timer(0.001), Ticker(0.0001), owner
        owner.func = Timer(0.005, lambda: owner)
        sys.owner = owner
    """,
    "signals are waited for": """
        later = after_func(3600, print_nothing)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        for _ in range(10):
            os.kill(os.getpid(), signal.SIGTERM)
            assert signal.sigwait({signal.SIGTERM}) == signal.SIGTERM
    """,
    "function sleeps": """
        begun = chan(10)
        for _ in range(10):
            after_func(0, lambda: (begun.send(1), stdtime.sleep(0.2), stdtime.sleep(60)))
        for _ in range(10):
            begun.recv()
    """,
    "function waits": """
        begun, never = chan(10), chan()
        for f in (never.recv, select, lambda: sleep(60), lambda: never.send(1)):
            after_func(0, lambda f=f: (begun.send(1), f()))
        for _ in range(4):
            begun.recv()
    """,
    "function is busy": """
        begun = chan(2)
        def busy():
            begun.send(1)
            while True:
                sum(range(100))
        after_func(0, busy)
        after_func(0, busy)
        begun.recv(), begun.recv()
    """,
    "priorities are compared": """
        from punctual.queue import PriorityQueue
        begun = threading.Barrier(3)
        class Slow:
            def __lt__(self, other):
                begun.wait()
                while True:
                    sum(range(100))
        def compare():
            queue = PriorityQueue()
            queue.push(Slow(), 1)
            queue.push(Slow(), 2)
        for _ in range(2):
            threading.Thread(target=compare, daemon=True).start()
        begun.wait()
    """,
    "functions re-arm themselves": """
        def again():
            after_func(0.00001, again)
        for _ in range(20):
            after_func(0, again)
        sleep(0.05)
    """,
    "slow functions": """
        for i in range(200):
            after_func(i * 0.0005, lambda: stdtime.sleep(0.001))
        sleep(0.05)
    """,
    "threads wait": """
        begun = chan()
        for f in (chan().recv, Timer(0.05).c.recv, Ticker(0.01).c.recv, lambda: sleep(0.05)):
            threading.Thread(target=lambda f=f: (begun.send(1), f(), f()), daemon=True).start()
            begun.recv()
    """,
    "during the end": """
        class Late:
            def __del__(self):
                self.timer(0.0, print_nothing)
                self.timer(1.0).stop()
        late = Late()
        late.timer = Timer
        sys.late = late
        atexit.register(lambda: (after(0.01).recv(), after_func(0.001, print_nothing), sleep(0.01)))
    """,
    "virtual": """
        clock = VirtualTime()
        clock.__enter__()
        timer, ticker = Timer(1), Ticker(1)
        after_func(1, print_nothing)
        threading.Thread(target=lambda: sleep(5), daemon=True).start()
        clock.advance(0.5)
    """,
    "a signal handler": """
        import signal
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        ticker = Ticker(0.0005)
        for _ in range(20):
            ticker.c.recv()
        signal.setitimer(signal.ITIMER_REAL, 0)
    """,
}

HEAD = """
import atexit, os, signal, sys, threading, time as stdtime
from punctual import chan, select
from punctual.time import *
def print_nothing(): pass
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_ends(name: str) -> None:
    lines = PROGRAMS[name].splitlines()
    program = HEAD + "\n".join(line[8:] for line in lines)
    for _ in range(3):
        ends_silently(program, "-X", "dev", timeout=30)


def test_program_ends_after_an_error() -> None:
    program = HEAD + "after_func(0, lambda: stdtime.sleep(60))\nTicker(0.001)\nsleep(0.02)\n1 // 0"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False
    )
    assert result.returncode == 1
    assert result.stderr.rstrip().endswith("ZeroDivisionError: integer division or modulo by zero")


@pytest.mark.skipif(sys.platform != "linux", reason="depends on how Linux refuses threads")
def test_timers_work_again_when_threads_can_be_started() -> None:
    program = """
import resource
def threads_may_start(yes):
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    most = resource.RLIM_INFINITY if yes else used + (1 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))

called = chan(1)
for arm in (lambda: after(0.01).recv(), lambda: after_func(0.01, lambda: called.send(1))):
    threads_may_start(False)
    try:
        arm()
    except BaseException as error:
        assert "cannot be started" in str(error)
    else:
        assert False, "a thread was started"
    threads_may_start(True)
# The refused timer does not exist; later deadlines do not wait for it.
assert select(after(0.05).recv, called.recv)[0] == 0
after_func(0.001, lambda: called.send(2))
assert called.recv() == 2
"""
    result = subprocess.run([sys.executable, "-c", HEAD + program], timeout=30, check=False)
    assert result.returncode == 0
