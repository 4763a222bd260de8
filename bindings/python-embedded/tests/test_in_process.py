"""What only a server in this process has: threads, forks with own commands, one interpreter."""

from __future__ import annotations

import contextlib
import gc
import logging
import re
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import pytest
from in_a_child import in_a_child
from patience import until
from punctual_embedded import CommandError, Invocation, Server

SUBINTERPRETER = """
import punctual_embedded
from _testcapi import run_in_subinterp
run_in_subinterp('''
try:
    import punctual_embedded
except ImportError as error:
    print("refused:", error)
''')
assert punctual_embedded.Server().url
"""


def threads() -> int:
    """Returns the number of threads of servers in this process, read from /proc."""
    found = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended
            found += re.match(r"punctual-\d", (task / "comm").read_text()) is not None
    return found


def test_threads_end_with_the_server() -> None:
    # The system lists a thread for a moment after `stop` has joined it.
    until(lambda: threads() == 0)
    for loops in (1, 2):
        with Server(threads=loops):
            until(lambda loops=loops: threads() == loops)  # type: ignore[misc]
        until(lambda: threads() == 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Server().start()
        gc.collect()
    until(lambda: threads() == 0)


def test_options_without_effect_warn() -> None:
    with pytest.warns(UserWarning, match="no effect in punctual_embedded.Server: lazyfree"):
        Server(lazyfree_lazy_expire="yes")


def test_wrong_options_are_refused_before_the_start() -> None:
    with pytest.raises(ValueError, match=r"maxclient: Bad directive.*did you mean 'maxclients'"):
        Server(maxclient=5)


def test_errors_are_those_of_the_other_package() -> None:
    import punctual_server

    assert CommandError is punctual_server.CommandError
    with Server() as server, pytest.raises(punctual_server.CommandError):
        server.call("NOSUCH")


def test_child_cannot_call_it_or_run_its_commands() -> None:
    servers = [Server()]

    @servers[0].command("twice", flags=["readonly"])
    def twice(_: Invocation, text: bytes) -> bytes:
        return text * 2

    with servers[0] as server:
        # The client of this call is kept, and a child must not disconnect it.
        assert server.call("TWICE", "ab") == b"abab"

        def child() -> None:
            with pytest.raises(RuntimeError, match="belongs to process"):
                servers[0].call("TWICE", "ab")
            with pytest.raises(RuntimeError, match="belongs to process"):
                servers[0].command("thrice")(twice)
            servers.clear()
            with Server() as mine:
                assert mine.call("PING") == b"PONG"

        assert in_a_child(child) == 0
        assert server.call("TWICE", "cd") == b"cdcd"


def test_a_handler_of_the_log_may_stop_the_server() -> None:
    logger = logging.getLogger("punctual_embedded")
    logger.setLevel(logging.DEBUG)
    stopped = threading.Event()
    server = Server(logger=logger)

    class Stops(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "Ready" in record.getMessage():
                server.stop()
                stopped.set()

    handler = Stops()
    logger.addHandler(handler)
    try:
        server.start()
        assert stopped.wait(30)
    finally:
        logger.removeHandler(handler)
    assert not server.running


def test_subinterpreters_are_refused() -> None:
    pytest.importorskip("_testcapi")
    shown = subprocess.run(
        [sys.executable, "-c", SUBINTERPRETER],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert shown.stdout.startswith("refused: punctual_embedded ")
