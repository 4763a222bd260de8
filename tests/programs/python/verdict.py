"""The verdict of a program, its last line: `works`, or `fails: ` with the step and the error."""

import asyncio
import inspect
import os
import subprocess
import sys
import time
import traceback

URL, HOST, PORT = os.environ["REDIS_URL"], os.environ["REDIS_HOST"], int(os.environ["REDIS_PORT"])
_step = "start"


def step(name):
    """Names what the program does next."""
    global _step
    _step = name
    print(f"- {name}", flush=True)


def equal(actual, expected):
    if actual != expected:
        raise AssertionError(f"{actual!r}, not {expected!r}")


def raises(kind, function, *arguments, **options):
    """Returns the exception of this kind that the call must raise."""
    try:
        result = function(*arguments, **options)
    except kind as error:
        return error
    raise AssertionError(f"{result!r}, not {kind.__name__}")


def until(condition, seconds=15):
    """Waits until `condition()` is true, and returns its value."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not true within {seconds} s: {inspect.getsource(condition).strip()}")
        time.sleep(0.02)
    return value


def start(*command):
    """Starts a worker, with the program's output as its own."""
    return subprocess.Popen([sys.executable, *command])


def report(program):
    """Calls the program, prints the verdict and ends the process with what the library left running."""
    try:
        result = program()
        if inspect.iscoroutine(result):
            asyncio.run(result)
        verdict = "works"
    except BaseException as error:
        traceback.print_exc()
        message = f"{type(error).__name__}: {error}".replace("\n", " ")
        verdict = f"fails: {_step}: {message}"
    sys.stderr.flush()
    print(verdict, flush=True)
    os._exit(verdict != "works")
