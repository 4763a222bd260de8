"""Prints a program's last line, its verdict: `works`, or `fails: ` with the step and the error."""

import asyncio
import inspect
import os
import socket
import subprocess
import sys
import time
import traceback

URL, HOST, PORT = os.environ["REDIS_URL"], os.environ["REDIS_HOST"], int(os.environ["REDIS_PORT"])
_step = "start"


def step(name):
    """Prints the name of the next step."""
    global _step
    _step = name
    print(f"- {name}", flush=True)


def equal(actual, expected):
    if actual != expected:
        raise AssertionError(f"{actual!r}, not {expected!r}")


def raises(kind, function, *arguments, **options):
    """Returns the exception of a call, which must raise one of this class."""
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
            source = inspect.getsource(condition).strip()
            raise AssertionError(f"not true within {seconds} s: {source}")
        time.sleep(0.02)
    return value


def control(command):
    """Sends a command to the control port of scripts/cluster, and waits until it is done."""
    with socket.create_connection((HOST, int(os.environ["CLUSTER_CONTROL"])), 60) as to:
        to.sendall(f"{command}\n".encode())
        equal(to.makefile().readline().strip(), "ok")


def start(words, *more):
    """Starts Python with the words of a line and `more`. The process inherits the output."""
    return subprocess.Popen([sys.executable, *words.split(), *more])


def report(program):
    """Calls the program, prints the verdict and ends the process, even with running threads."""
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
