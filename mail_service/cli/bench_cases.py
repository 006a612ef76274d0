"""A bench as data: cases that are run in turn, repetition by repetition, and their medians."""

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from mail_service.cli.bench_place import Place
from mail_service.cli.bench_sizes import Sizes

Figures = Mapping[str, float]
"""What one run of a case measured, by name; NaN where it can't be measured here."""


class Measure(Protocol):
    """Runs a case once."""

    def __call__(self, place: Place, sizes: Sizes) -> Figures:
        """Give what was measured."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One thing to measure: cases of one group are run in turn, so that all meet the same weather."""

    group: str
    name: str
    measure: Measure
    about: str = ""
    once: bool = False
    """Measured once a bench: what takes long, and is a median of many in itself."""


@dataclass(slots=True)
class Outcome:
    """What all runs of a case measured."""

    case: Case
    runs: list[Figures] = field(default_factory=list[Figures])
    left_out: str = ""

    def median(self, name: str) -> float:
        """Give the median of a figure; NaN where there is none."""
        values = [run[name] for run in self.runs if not math.isnan(run.get(name, math.nan))]
        return statistics.median(values) if values else math.nan

    def names(self) -> list[str]:
        """Give the figures' names, in order."""
        return list(dict.fromkeys(name for run in self.runs for name in run))


class Progress(Protocol):
    """Is told of each step."""

    def __call__(self, group: str, case: str, repetition: int) -> None:
        """A run begins."""
        ...


class CannotMeasure(Exception):
    """A case can't be measured here; the text says why."""


def run(
    cases: Sequence[Case], place: Place, sizes: Sizes, progress: Progress
) -> list[Outcome]:  # fmt: skip
    """Run every case: group by group, within a group all cases in turn for each repetition."""
    outcomes = [Outcome(case) for case in cases]
    for group in dict.fromkeys(case.group for case in cases):
        members = [outcome for outcome in outcomes if outcome.case.group == group]
        for repetition in range(1, sizes.repetitions + 1):
            for outcome in members:
                if outcome.left_out or (outcome.case.once and repetition > 1):
                    continue
                progress(group, outcome.case.name, repetition)
                try:
                    outcome.runs.append(outcome.case.measure(place, sizes))
                except CannotMeasure as why:
                    outcome.left_out = str(why)
    return outcomes


def steps(cases: Sequence[Case], sizes: Sizes) -> int:
    """Give how many runs there will be."""
    return sum(1 if case.once else sizes.repetitions for case in cases)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A bound that a figure should keep, as a ratio wherever two things can be compared."""

    text: str
    value: Callable[["Medians"], float]
    bound: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        """Tell whether a value keeps the bound."""
        return value >= self.bound if self.at_least else value <= self.bound


class Medians:
    """Looks up medians by group, case and figure."""

    def __init__(self, outcomes: Iterable[Outcome]) -> None:
        self._outcomes = {(one.case.group, one.case.name): one for one in outcomes}

    def __call__(self, group: str, case: str, figure: str) -> float:
        """Give a median; NaN where it was not measured."""
        outcome = self._outcomes.get((group, case))
        return math.nan if outcome is None else outcome.median(figure)


def percentile(values: Iterable[float], share: float) -> float:
    """Give the value that this share of the values does not exceed; NaN of none."""
    ordered = sorted(values)
    if not ordered:
        return math.nan
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)]
