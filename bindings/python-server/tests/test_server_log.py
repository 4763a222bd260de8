"""The server's log in Python's `logging`."""

from __future__ import annotations

import gc
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from patience import until
from redis.backoff import NoBackoff
from redis.retry import Retry
from tested import EXAMPLE, Server

NAME = "punctual_server"


@pytest.fixture
def logger() -> logging.Logger:
    return logging.getLogger(NAME)


@pytest.fixture(autouse=True)
def all_levels(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG, NAME):
        yield


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    until(lambda: not log_threads())


def log_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "punctual-log"]


def levels(caplog: pytest.LogCaptureFixture, message: str) -> list[int]:
    return [record.levelno for record in caplog.records if message in record.getMessage()]


def test_lines_become_records(logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    with Server(logger=logger, clock="virtual") as server:
        assert len(log_threads()) == 1
        with redis.Redis(port=server.port) as client:
            client.ping()
    # The log is complete after the stop.
    assert levels(caplog, "The clock is virtual") == [logging.WARNING]
    assert levels(caplog, "Ready to accept connections tcp") == [logging.INFO]
    assert {record.name for record in caplog.records} == {NAME}
    # The server's prefix of a line (process, time) is missing: `logging` has its own.
    assert not levels(caplog, f"{os.getpid()}:")


def test_the_servers_own_level(logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    with Server(logger=logger, clock="virtual", loglevel="warning"):
        pass
    assert {record.levelno for record in caplog.records} == {logging.WARNING}


def test_percent_signs_are_not_formats(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    path = tmp_path / "100%s"
    with Server(None, logger=NAME, unixsocket=path):
        pass
    assert levels(caplog, str(path)) == [logging.INFO]


def test_started_again(logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    server = Server(logger=logger)
    for times in (1, 2, 3):
        with server:
            server.start()
            assert len(log_threads()) == 1
        assert len(levels(caplog, "Ready to accept")) == times
        assert not log_threads()


def test_shut_down_by_a_client(logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    server = Server(logger=logger).start()
    with redis.Redis(port=server.port, retry=Retry(NoBackoff(), 0)) as client:
        client.shutdown(nosave=True)
    until(lambda: not server.running)
    # The log thread may still be running.
    until(lambda: levels(caplog, "User requested shutdown") == [logging.WARNING])
    server.start()
    until(lambda: len(log_threads()) == 1)
    server.stop()
    assert not log_threads()


def test_the_log_explains_a_failed_start(
    logger: logging.Logger, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    (tmp_path / "dump.rdb").write_bytes(b"REDIS0011 and then garbage")
    server = Server(logger=logger, dir=tmp_path, dbfilename="dump.rdb")
    for _ in range(2):
        caplog.clear()
        with pytest.raises(RuntimeError):
            server.start()
        assert logging.WARNING in levels(caplog, "")
        assert not log_threads()


def test_either_a_logger_or_a_file(logger: logging.Logger, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="logger and logfile"):
        Server(logger=logger, logfile=tmp_path / "server.log")


@pytest.mark.parametrize("value", [True, 1, print])
def test_invalid_loggers(value: Any) -> None:
    with pytest.raises(TypeError, match="is not a logger"):
        Server(logger=value)


def test_dropped_without_stop(logger: logging.Logger, caplog: pytest.LogCaptureFixture) -> None:
    servers = [Server(logger=logger).start()]
    with pytest.warns(ResourceWarning, match="not stopped"):  # noqa: PT031 - either drops it
        servers.clear()
        gc.collect()
    until(lambda: levels(caplog, "Ready to accept"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_in_a_fork(logger: logging.Logger) -> None:
    with Server(logger=logger) as server:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                server.stop()
                del server
                gc.collect()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        with redis.Redis(port=server.port) as client:
            assert client.ping()


def test_at_the_end_of_the_program() -> None:
    program = """
import logging
logging.basicConfig(level=logging.DEBUG)
logger = logging.getLogger("punctual_server")
server = package.Server(logger=logger, loglevel="debug").start()
"""
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", EXAMPLE + program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "INFO:punctual_server:Ready to accept connections tcp" in ended.stderr
