"""The benchmarks in `bench/`, which the package does not contain."""

from __future__ import annotations

import importlib.util
import re

import pytest

import bench


def test_the_package_has_none() -> None:
    assert importlib.util.find_spec("punctual.bench") is None


@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        (["server", "--rounds", "1"], 9),
        (["gevent", "--rounds", "1"], 2),
        (["aio", "--rounds", "1", "--live", "1000"], 3),
    ],
)
def test_benchmarks_print_a_row_for_each_contender(
    arguments: list[str], rows: int, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.main(arguments)
    told = capsys.readouterr().out
    assert len(re.findall(r" [\d.,]+ [a-z]+  \([\d.,]+-[\d.,]+\)", told)) >= rows
