"""CPython's own tests of asyncio, on `punctual.aio`: see `cpython_asyncio.py`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

RUNNER = Path(__file__).with_name("cpython_asyncio.py")
NO_SUCH_MODULE = 77

# All modules that create loops; some do not exist in every version of Python.
MODULES = [
    "test_base_events",
    "test_buffered_proto",
    "test_context",
    "test_eager_task_factory",
    "test_events",
    "test_free_threading",
    "test_futures2",
    "test_locks",
    "test_pep492",
    "test_queues",
    "test_runners",
    "test_selector_events",
    "test_server",
    "test_staggered",
    "test_streams",
    "test_taskgroups",
    "test_threads",
    "test_timeouts",
    "test_unix_events",
    "test_waitfor",
]
# These modules take as long as all others together; they run in CI and on request.
LONG = [
    "test_ssl",
    "test_tasks",
    "test_sendfile",
    "test_subprocess",
    "test_sock_lowlevel",
    "test_sslproto",
    "test_futures",
]
ALL = bool(os.environ.get("CI") or os.environ.get("PUNCTUAL_TESTS_LONG"))

# The longest modules run first.
RUN = (LONG if ALL else []) + MODULES

Results = dict[str, "Future[subprocess.CompletedProcess[str]]"]


def run(module: str) -> subprocess.CompletedProcess[str]:
    # Each test module runs in its own process, because it patches modules, signals and warnings.
    return subprocess.run(
        [sys.executable, str(RUNNER), module],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest) -> Iterator[Results]:
    selected = {
        item.callspec.params["module"]
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.originalname == "test_cpython_module"
    }
    # Most test modules sleep most of the time.
    with ThreadPoolExecutor(max_workers=3) as pool:
        yield {module: pool.submit(run, module) for module in RUN if module in selected}


@pytest.mark.parametrize(
    "module",
    [
        *MODULES,
        *(
            pytest.param(
                module, marks=pytest.mark.skipif(not ALL, reason="long: set PUNCTUAL_TESTS_LONG=1")
            )
            for module in LONG
        ),
    ],
)
def test_cpython_module(module: str, results: Results) -> None:
    result = results[module].result()
    if result.returncode == NO_SUCH_MODULE:
        pytest.skip(f"this Python has no test.test_asyncio.{module}")
    assert result.returncode == 0, result.stdout
