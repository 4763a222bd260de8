"""What benchmarks print: figures as they come, and which bars were missed."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Callable

# Nanoseconds for each of so many operations.
Measure = Callable[[int], float]


@dataclass
class Bar:
    """What one contender may take at most: a share of what another takes."""

    of: str
    share: float
    peer: str


def _show(value: float) -> str:
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else 2}f}"


@dataclass
class Report:
    """What was measured, printed as it comes, and what was missed."""

    rounds: int
    only: str | None
    missed: list[str] = field(default_factory=list)

    def wants(self, title: str) -> bool:
        """Tell whether it is to be measured; then print its title."""
        if self.only is not None and self.only not in title:
            return False
        print(f"\n{title}")
        return True

    def compare(
        self,
        title: str,
        contenders: dict[str, tuple[Measure, int]],
        bars: Sequence[Bar] = (),
        rounds: int | None = None,
    ) -> None:
        """Have all take turns: each measure with its count. Ratios are of the first to the others.

        Bars are held against the medians; those of who is not here do not count.
        """
        figures: dict[str, list[float]] = {name: [] for name in contenders}
        for _ in range(self.rounds if rounds is None else rounds):
            for name, (measure, count) in contenders.items():
                gc.collect()
                measure(count // 10)
                figures[name].append(measure(count))
        self.figures(title, "ns", figures, bars)

    def figures(
        self, title: str, unit: str, figures: dict[str, list[float]], bars: Sequence[Bar] = ()
    ) -> None:
        """Print the figures of all, one a round: medians, with the lowest and the highest."""
        first = next(iter(figures))
        middle = {name: median(values) for name, values in figures.items()}
        for name, values in figures.items():
            ratio = middle[first] / middle[name] if middle[name] else 1.0
            self.line(
                name,
                f"{_show(middle[name]):>10} {unit}   ({_show(min(values))}-{_show(max(values))})",
                "" if name == first else f"{ratio:6.3f}x",
            )
        for bar in bars:
            if bar.peer in middle:
                ratio = middle[bar.of] / middle[bar.peer]
                figure = f"{bar.of} takes {ratio:.3f}x {bar.peer}"
                self.bar(title, figure, ratio <= bar.share, f"<= {bar.share:g}x")

    def line(self, name: str, *columns: str) -> None:
        """Print figures."""
        print(f"  {name:<26}{'  '.join(columns)}", flush=True)

    def bar(self, title: str, figure: str, passed: bool, bar: str) -> None:
        """Print whether a bar was met."""
        print(f"  {'PASS' if passed else 'MISS'}: {figure}, bar {bar}", flush=True)
        if not passed:
            self.missed.append(f"{title}: {figure}, bar {bar}")

    def end(self) -> None:
        """Print what was missed."""
        print("\nmissed:" if self.missed else "\nall bars met")
        for missed in self.missed:
            print(f"  {missed}")
