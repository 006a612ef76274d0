"""What a bench found: one table, the goals with what was seen, and all of it as JSON."""

import math
import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from mail_service.cli import bench_depth, bench_formation, bench_web
from mail_service.cli.bench_cases import Goal, Medians, Outcome
from mail_service.cli.bench_pipeline import OURS, RAW, group_of
from mail_service.cli.bench_sizes import Sizes

IDLE = bench_formation.CASES[-1].name
AT_ONCE, AFTER_50_MS = group_of(0), group_of(0.05)
WRONG = ("duplicates", "missing", "unfinished")
"""Figures that must be zero, or what was measured is not what the product promises."""


def _ratio(group: str, case: str, other: str, figure: str) -> Callable[[Medians], float]:
    def ratio(medians: Medians) -> float:
        return medians(group, case, figure) / medians(group, other, figure)

    return ratio


GOALS: tuple[Goal, ...] = (
    Goal(
        text="emails/s to raw boto3 at 50 ms",
        value=_ratio(AFTER_50_MS, OURS.name, RAW.name, "emails/s"),
        bound=0.97,
        at_least=True,
    ),
    Goal(
        text="emails/s to raw boto3 at 0 ms",
        value=_ratio(AT_ONCE, OURS.name, RAW.name, "emails/s"),
        bound=0.50,
        at_least=True,
    ),
    Goal(
        text="commit to call at rest, p50 ms",
        value=lambda medians: medians(bench_formation.AWAKE, "with the nudge", "p50 ms"),
        bound=30,
    ),
    Goal(
        text="commit to call at rest, p99 ms",
        value=lambda medians: medians(bench_formation.AWAKE, "with the nudge", "p99 ms"),
        bound=200,
    ),
    Goal(
        text="claim of 32: deep to 1,000 pending",
        value=_ratio(bench_depth.CLAIMS, "deep", "1,000 pending", "p50 ms"),
        bound=1.3,
    ),
    Goal(
        text="churn: old snapshot to none",
        value=_ratio(bench_depth.CHURN, "old snapshot open", "no old snapshot", "emails/s"),
        bound=0.75,
        at_least=True,
    ),
    Goal(
        text="POST /v1/accounts to the bare route",
        value=_ratio(bench_web.INTAKE, "mail-service", "bare route", "requests/s"),
        bound=0.75,
        at_least=True,
    ),
    Goal(
        text="webhook to the bare route",
        value=_ratio(bench_web.WEBHOOK, "mail-service", "bare route", "requests/s"),
        bound=0.60,
        at_least=True,
    ),
    Goal(
        text="doing nothing: queries/s of a worker",
        value=lambda medians: medians(bench_formation.IDLE, IDLE, "a worker's"),
        bound=1,
    ),
    Goal(
        text="doing nothing: CPU % of a core, all processes",
        value=lambda medians: medians(bench_formation.IDLE, IDLE, "CPU %"),
        bound=1,
    ),
)


def problems(outcomes: Sequence[Outcome]) -> list[str]:
    """Name every run that doubled, lost or left something: then its figures mean nothing."""
    return [
        f"{one.case.group}, {one.case.name}: {name} {worst:g}"
        for one in outcomes
        for name in WRONG
        if (worst := max((run.get(name, 0) for run in one.runs), default=0)) != 0
    ]


def judged(goals: Sequence[Goal], outcomes: Sequence[Outcome]) -> list[tuple[Goal, float]]:
    """Give each goal with the value seen, where there is one."""
    medians = Medians(outcomes)
    seen = [(goal, _value(goal, medians)) for goal in goals]
    return [(goal, value) for goal, value in seen if not math.isnan(value)]


def _value(goal: Goal, medians: Medians) -> float:
    try:
        return goal.value(medians)
    except ZeroDivisionError:
        return math.nan


def as_json(
    outcomes: Sequence[Outcome], goals: Sequence[Goal], sizes: Sizes, server: str
) -> dict[str, Any]:
    """Give everything that was measured."""
    return {
        "machine": {
            "cores": os.cpu_count(),
            "processor": _processor(),
            "python": platform.python_version(),
            "system": platform.platform(terse=True),
            "postgresql": server,
            "load": [round(load, 2) for load in os.getloadavg()],
        },
        "sizes": asdict(sizes),
        "cases": [
            {
                "group": one.case.group,
                "case": one.case.name,
                "about": one.case.about,
                "left_out": one.left_out or None,
                "figures": {
                    name: {
                        "median": _plain(one.median(name)),
                        "runs": [_plain(run.get(name, math.nan)) for run in one.runs],
                    }
                    for name in one.names()
                },
            }
            for one in outcomes
        ],
        "goals": [
            {
                "goal": goal.text,
                "bound": goal.bound,
                "at_least": goal.at_least,
                "seen": _plain(value),
                "met": goal.met(value),
            }
            for goal, value in judged(goals, outcomes)
        ],
    }


def show(outcomes: Sequence[Outcome], goals: Sequence[Goal], console: Console) -> None:
    """Print the table: medians, and how the goals stand."""
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for group in dict.fromkeys(one.case.group for one in outcomes):
        members = [one for one in outcomes if one.case.group == group]
        names = list(dict.fromkeys(name for one in members for name in one.names()))
        inner = Table(
            title=group, title_justify="left", title_style="bold", box=None, pad_edge=False
        )
        inner.add_column("")
        for name in names:
            inner.add_column(name, justify="right")
        for one in members:
            told = [_shown(one.median(name)) for name in names]
            inner.add_row(one.case.name, *(told if one.runs else [one.left_out]))
        table.add_row(Group(inner, Text()))
    rows = judged(goals, outcomes)
    if rows:
        ends = Table(
            title="goals", title_justify="left", title_style="bold", box=None, pad_edge=False
        )
        for name in ("", "bound", "seen", ""):
            ends.add_column(name, justify="right" if name else "left")
        for goal, value in rows:
            sign = ">=" if goal.at_least else "<="
            word = "met" if goal.met(value) else "missed"
            ends.add_row(goal.text, f"{sign} {goal.bound:g}", _shown(value), word)
        table.add_row(ends)
    console.print(table)


def _shown(value: float) -> str:
    if math.isnan(value):
        return "-"
    if value == int(value) or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _plain(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 4)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 - one short read
            return next(line.partition(":")[2].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.machine()
