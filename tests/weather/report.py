"""Shows how the weather goes (a bar on a terminal, plain lines elsewhere) and what came of it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.campaign.auditor import Verdict
from tests.weather import auditor
from tests.weather.evidence import Evidence

PLAIN_LINE_EVERY = 5.0


class Watch(AbstractContextManager["Watch"]):
    """Says how far it is; a whole is one weather."""

    def __init__(self, console: Console, weathers: int) -> None:
        self._console = console
        self._said_at = 0.0
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console
        )
        self._task: TaskID = self._bar.add_task("starting", total=weathers)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def show(self, what: str, done: float) -> None:
        """Tell where it stands."""
        self._bar.update(self._task, completed=done, description=what)
        if not self._console.is_terminal and time.monotonic() - self._said_at > PLAIN_LINE_EVERY:
            self._said_at = time.monotonic()
            self._console.print(what, highlight=False)


def table(title: str, seen: Sequence[Evidence], verdicts: Sequence[Sequence[Verdict]]) -> Table:
    """One row for each weather."""
    shown = Table(title=title)
    for column in (
        "weather",
        "emails",
        "failed",
        "ambiguous",
        "in flight",
        "probes",
        "hold, seconds",
        "noticed after",
        "all out after",
        "attempts used up",
        "alarms per hold",
        "verdict",
    ):
        shown.add_column(column, justify="left" if column in {"weather", "verdict"} else "right")
    for found, judged in zip(seen, verdicts, strict=True):
        broken = [verdict.rule for verdict in judged if verdict.violations]
        shown.add_row(*_figures(found), "ok" if not broken else f"[red]{'; '.join(broken)}[/red]")
    return shown


def _figures(found: Evidence) -> list[str]:
    holds = found.holds
    last = auditor.last_out(found)
    alarms = found.alarms.count("sending_held")
    return [
        found.weather.name,
        str(len(found.emails)),
        str(sum(row["state"] == "failed" for row in found.emails)),
        str(len(auditor.in_doubt(found))),
        ", ".join(str(auditor.in_flight(found, hold)) for hold in holds) or "-",
        str(sum(hold["probes"] for hold in holds)),
        ", ".join(
            f"{hold['scope']} {(hold['cleared_at'] - hold['opened_at']).total_seconds():.1f}"
            if hold["cleared_at"]
            else f"{hold['scope']} open"
            for hold in holds
        )
        or "none",
        ", ".join(
            f"{(hold['cleared_at'] - found.ended).total_seconds():.1f}"
            for hold in holds
            if hold["cleared_at"]
        )
        or "-",
        f"{(last - found.ended).total_seconds():.1f}" if last else "-",
        str(sum(row["refusals"] for row in found.emails)),
        f"{alarms / len(holds):g}" if holds else f"{alarms} of 0",
    ]
