"""Shows how a campaign goes (a bar on a terminal, plain lines elsewhere) and what came of it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table

from tests.campaign import watch
from tests.campaign.auditor import Verdict
from tests.campaign.nemesis import ENOUGH, WINDOWS, Tally


class Watch(watch.Watch):
    """Says how far a campaign is."""

    def __init__(self, console: Console, kills: int, emails: int) -> None:
        super().__init__(console, kills)
        self._kills = kills
        self._emails = emails

    def stands(self, what: str, tally: Tally, answered: int) -> None:
        """Tell where it stands."""
        windows = " ".join(f"{window} {tally.windows[window]}" for window in WINDOWS)
        line = (
            f"{what}: kills {tally.total}/{self._kills} ({windows}), "
            f"sign-ups {answered}/{self._emails}"
        )
        self.show(line, tally.total)


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
    judged(shown, verdicts)
    return shown


def judged(shown: Table, verdicts: Iterable[Verdict]) -> None:
    """Add a row for each rule."""
    for verdict in verdicts:
        broken = len(verdict.violations)
        word = "ok" if not broken else f"[red]{broken} VIOLATIONS[/red]"
        shown.add_row(verdict.rule, str(verdict.looked_at), word)


def _word(right: bool) -> str:
    return "ok" if right else f"[red]fewer than {ENOUGH}[/red]"
