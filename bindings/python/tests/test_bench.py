"""The benchmarks in `bench/`, which are no part of the package."""

from __future__ import annotations

import importlib.util
import re

import pytest

import bench


def test_help_lists_the_benchmarks(capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.names() == ["aio", "queue", "server", "time"]
    for arguments in [["--help"], ["server", "--help"]]:
        with pytest.raises(SystemExit) as ended:
            bench.main(arguments)
        assert ended.value.code == 0
        assert re.match(r"(?s)usage: python -m bench .*server ", capsys.readouterr().out)


def test_the_package_has_none() -> None:
    assert importlib.util.find_spec("punctual.bench") is None


def test_benchmark_of_the_server(capsys: pytest.CaptureFixture[str]) -> None:
    bench.main(["server", "--rounds", "2", "--keys", "100"])
    told = capsys.readouterr().out
    assert len(re.findall(r"^  punctual.Server +[\d.,]+ us ", told, re.MULTILINE)) == 3
    assert re.search(r"^  100 keys due +[\d.,]+ us ", told, re.MULTILINE)


def test_benchmark_of_queues(capsys: pytest.CaptureFixture[str]) -> None:
    bench.main(["queue", "--rounds", "1", "--live", "200"])
    told = capsys.readouterr().out
    names = re.findall(r"^  (\w+) +[\d.,]+ ns ", told, re.MULTILINE)
    measured = {"Wheel": 3, "Heap": 3, "sched": 3, "PriorityQueue": 2, "heapq": 5}
    assert {name: names.count(name) for name in measured} == measured
