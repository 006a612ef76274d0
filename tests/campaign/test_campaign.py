"""The crash campaign in a size that every run of the tests can afford."""

from __future__ import annotations

import io

from rich.console import Console

from tests.campaign.campaign import run
from tests.campaign.nemesis import ENOUGH, WINDOWS


def test_no_promise_breaks_when_processes_are_killed_in_every_window() -> None:
    console = Console(file=io.StringIO(), width=140)
    outcome = run(emails=120, kills=9, seed=1, console=console)
    assert outcome.violations == []
    hits = outcome.tally.windows
    assert all(hits[window] >= ENOUGH for window in WINDOWS), hits
