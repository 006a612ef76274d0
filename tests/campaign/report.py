"""Shows how a campaign goes (a bar on a terminal, plain lines elsewhere) and what came of it."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from tests.campaign.auditor import Verdict
from tests.campaign.nemesis import ENOUGH, WINDOWS, Tally

PLAIN_LINE_EVERY = 5.0


class Watch(AbstractContextManager["Watch"]):
    """Says how far a campaign is."""

    def __init__(self, console: Console, kills: int, emails: int) -> None:
        self._console = console
        self._kills = kills
        self._emails = emails
        self._said_at = 0.0
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TimeElapsedColumn(),
                console=self._console,
            )
            self._bar.start()
            self._task = self._bar.add_task("starting", total=self._kills)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def show(self, what: str, tally: Tally, answered: int) -> None:
        """Tell where it stands."""
        windows = " ".join(f"{window} {tally.windows[window]}" for window in WINDOWS)
        line = (
            f"{what}: kills {tally.total}/{self._kills} ({windows}), "
            f"sign-ups {answered}/{self._emails}"
        )
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=tally.total, description=line)
        elif time.monotonic() - self._said_at > PLAIN_LINE_EVERY:
            self._said_at = time.monotonic()
            self._console.print(line, highlight=False)


def table(title: str, facts: dict[str, object], verdicts: list[Verdict], tally: Tally) -> Table:
    """Everything in one table: what was done, the windows, the rules."""
    shown = Table("what", "count", "verdict", title=title)
    for name, value in facts.items():
        shown.add_row(name, str(value), "")
    shown.add_section()
    for window in WINDOWS:
        hits = tally.windows[window]
        shown.add_row(f"kills in window {window}", str(hits), _word(hits >= ENOUGH))
    shown.add_section()
    for verdict in verdicts:
        broken = len(verdict.violations)
        word = "ok" if not broken else f"[red]{broken} VIOLATIONS[/red]"
        shown.add_row(verdict.rule, str(verdict.looked_at), word)
    return shown


def _word(right: bool) -> str:
    return "ok" if right else f"[red]fewer than {ENOUGH}[/red]"
