"""Chaos in a size that every run of the tests can afford. Never run again on red: the seed is printed."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from tests.chaos.run import run
from tests.chaos.verdict import Asked

SEED = 1
CERTAIN = (
    "SIGKILLs in all",
    "SIGKILL of a worker",
    "SIGKILL of a web",
    "SIGKILL of a clock",
    "kill -9 of the postmaster",
    "purges of all backends",
    "deploys (group SIGTERM, twice)",
    "broker's table truncated",
    "certificates asked for in vain",
    "calls refused while paused",
    "wire: late",
    "wire: COMMIT done, answer lost",
    "wire: COMMIT lost",
    "events: repeated",
    "events: reordered",
    "forgeries",
    "emails kept from the suppressed",
)
"""Faults that even so few emails meet, whatever the machine's pace."""


@pytest.mark.timeout(240)
def test_no_promise_breaks_while_everything_goes_wrong() -> None:
    shown = io.StringIO()
    asked = Asked(
        emails=100,
        seed=SEED,
        aimed_again=0,
        # The longest first, so that its aftermath passes meanwhile; the slowest is the command's.
        first=("certificate",),
        without=("certificate", "stale"),
    )
    outcome = run(asked, Console(file=shown, width=140))
    assert outcome.violations == [], f"seed {SEED}\n{shown.getvalue()}"
    unmet = [point for point in CERTAIN if not outcome.points[point]]
    assert unmet == [], f"seed {SEED}\n{shown.getvalue()}"


@pytest.mark.timeout(120)
def test_without_a_fault_there_is_no_doubt_no_duplicate_and_no_retry() -> None:
    shown = io.StringIO()
    outcome = run(Asked(emails=50, seed=SEED, control=True), Console(file=shown, width=140))
    assert outcome.violations == [], f"seed {SEED}\n{shown.getvalue()}"
