"""The embedded server as a fixture: starting one for each test, a command, and moving its clock.

Beside it, where they are installed: a redis-server process, and fakeredis, which is Python alone.
"""

from __future__ import annotations

import argparse
import importlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from statistics import quantiles
from typing import Any, Callable

from punctual.server import Server

# Something to test against: what is yielded is a client of an empty server.
Maker = Callable[[], AbstractContextManager[Any]]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options."""
    parser.add_argument(
        "--rounds", type=int, default=200, help="tests of each kind, at least 2 [200]"
    )
    parser.add_argument(
        "--keys", type=int, default=100_000, help="keys that one advance expires [100000]"
    )


def run(options: argparse.Namespace) -> None:
    """Measure, and print."""
    alone: list[float] = []
    for _ in range(options.rounds):
        begun = time.perf_counter()
        with Server():
            pass
        alone.append(time.perf_counter() - begun)
    print(f"Start and stop, and nobody connects; {options.rounds} times.")
    _print({"punctual.Server": alone})

    makers = _makers()
    print(f"\nA test with a server of its own: start, SET, GET, stop; {options.rounds} of each.")
    whole: dict[str, list[float]] = {name: [] for name in makers}
    for round_ in range(options.rounds + 1):
        for name, make in makers.items():
            # A process takes so much longer that a tenth of them tells enough.
            if name == "redis-server" and round_ > max(2, options.rounds // 10):
                continue
            begun = time.perf_counter()
            with make() as client:
                client.set("key", "value")
                assert client.get("key")
            # The first is a rehearsal.
            if round_ > 0:
                whole[name].append(time.perf_counter() - begun)
    _print(whole)

    print(f"\nOne command, SET or GET, from redis-py; {10 * options.rounds} of each.")
    single: dict[str, list[float]] = {name: [] for name in makers}
    for name, make in makers.items():
        with make() as client:
            for n in range(10 * options.rounds):
                begun = time.perf_counter()
                client.get("key") if n % 2 else client.set("key", "value")
                single[name].append(time.perf_counter() - begun)
    _print(single)

    print("\nadvance() of a virtual clock.")
    _print(_advances(options.rounds, options.keys))


def _makers() -> dict[str, Maker]:
    import redis

    @contextmanager
    def embedded() -> Iterator[Any]:
        with Server() as server, redis.Redis(port=server.port) as client:
            yield client

    makers: dict[str, Maker] = {"punctual.Server": embedded}
    try:
        fakeredis = importlib.import_module("fakeredis")
    except ImportError:
        print("not here: fakeredis")
    else:
        # Each server of its own, as a test needs it.
        makers["fakeredis"] = lambda: fakeredis.FakeRedis(server=fakeredis.FakeServer())
    binary = shutil.which("redis-server")
    if binary is None:
        print("not here: redis-server")
    else:
        path = binary

        @contextmanager
        def process() -> Iterator[Any]:
            with tempfile.TemporaryDirectory() as folder, _redis_server(path, folder) as client:
                yield client

        makers["redis-server"] = process
    return makers


@contextmanager
def _redis_server(binary: str, folder: str) -> Iterator[Any]:
    import redis

    socket = Path(folder, "server.sock")
    command = [binary, "--port", "0", "--unixsocket", str(socket), "--save", ""]
    process = subprocess.Popen(
        [*command, "--dir", folder], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        while not socket.exists():
            time.sleep(0.0005)
        with redis.Redis(unix_socket_path=str(socket)) as client:
            yield client
    finally:
        process.terminate()
        process.wait()


def _advances(rounds: int, keys: int) -> dict[str, list[float]]:
    import redis

    times: dict[str, list[float]] = {}
    with Server(clock="virtual") as server, redis.Redis(port=server.port) as client:

        def measure(name: str) -> None:
            begun = time.perf_counter()
            server.advance(1)
            times.setdefault(name, []).append(time.perf_counter() - begun)

        for _ in range(rounds):
            measure("nothing due")
            client.set("key", "value", px=1000)
            measure("a key due")
        for _ in range(3):
            with client.pipeline(transaction=False) as pipeline:
                for n in range(keys):
                    pipeline.set(f"key:{n}", "value", px=1 + n % 1000)
                pipeline.execute()
            measure(f"{keys} keys due")
        assert client.dbsize() == 0
    return times


def _print(times: dict[str, list[float]]) -> None:
    """Print medians with the range that nine of ten lie in."""
    for name, samples in times.items():
        low, *_, high = quantiles(samples, n=20, method="inclusive")
        middle = quantiles(samples, n=2, method="inclusive")[0]
        print(f"  {name:18} {middle * 1e6:12,.1f} us   ({low * 1e6:,.1f} to {high * 1e6:,.1f})")
