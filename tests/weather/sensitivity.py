"""Proves the weather: each seeded bug must turn it red. ``python -m tests.weather.sensitivity``

The bugs are patches of a copy of the tree, as in the crash campaign, each under the weather that it is
about.
"""

from __future__ import annotations

import argparse
import io
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.campaign.seeding import Patch
from tests.campaign.sensitivity import Bug, copied, known, patched
from tests.weather.run import quick, run
from tests.weather.weathers import WEATHERS


@dataclass(frozen=True)
class Seeded:
    """A bug and the weather that shows it."""

    weather: str
    bug: Bug


BUGS = (
    Seeded("", Bug("no bug at all (the control: it must stay green)", (), ())),
    Seeded(
        "account paused",
        Bug(
            "no hold is opened",
            (
                Patch(
                    "mail_service/workflows/holding.py",
                    "        if isinstance(result, Held):\n            _hold(",
                    "        if isinstance(result, Held) and row.number == 0:\n            _hold(",
                ),
            ),
            ("the hold that is due",),
        ),
    ),
    Seeded(
        "account paused",
        Bug(
            "a probe that was refused keeps the slot",
            (
                Patch(
                    "mail_service/store/holds.py",
                    "SET probe_attempt_id = NULL WHERE id = %s AND cleared_at IS NULL",
                    "SET probe_attempt_id = NULL WHERE id = %s AND cleared_at IS NOT NULL",
                ),
            ),
            ("everything came to rest",),
        ),
    ),
    Seeded(
        "expired credentials",
        Bug(
            "held emails use up attempts",
            (
                Patch(
                    "mail_service/domain/sending.py",
                    "reason=error_class,\n                    wait_seconds=0.0,\n"
                    "                    refusals=email.refusals,",
                    "reason=error_class,\n                    wait_seconds=0.0,\n"
                    "                    refusals=email.refusals + 1,",
                ),
            ),
            ("no email used up an attempt",),
        ),
    ),
    Seeded(
        "unverified sender",
        Bug(
            "one sender's fault holds everybody",
            (
                Patch(
                    "mail_service/domain/answers.py",
                    "return Held(scope=HoldScope.SENDER,",
                    "return Held(scope=HoldScope.ACCOUNT,",
                ),
            ),
            ("the hold that is due",),
        ),
    ),
    Seeded(
        "missing configuration set",
        Bug(
            "each call that was caught raises an alarm",
            (
                Patch(
                    "mail_service/workflows/holding.py",
                    '    if opened:\n        journal.alarm_once(\n            tx,\n            "sending',
                    '    if True:\n        journal.alarm_once(\n            tx,\n            "sending',
                ),
            ),
            ("each hold raises one alarm",),
        ),
    ),
    Seeded(
        "refused connections",
        Bug(
            "a refused connection is a permanent refusal",
            (
                Patch(
                    "mail_service/domain/answers.py",
                    "return Held(scope=HoldScope.ENDPOINT, error_class=reason, error_code=code)",
                    "return Refused(error_class=reason, error_code=code)",
                ),
            ),
            ("nothing failed",),
        ),
    ),
    Seeded(
        "503s",
        Bug(
            "unknown outcomes open no hold",
            (
                Patch(
                    "mail_service/domain/holding.py",
                    "UNKNOWNS_THAT_HOLD = 5",
                    "UNKNOWNS_THAT_HOLD = 5000",
                ),
            ),
            ("the hold that is due",),
        ),
    ),
    Seeded(
        "503s",
        Bug(
            "the claim does not look at holds of the endpoint",
            (
                Patch(
                    "mail_service/store/waves.py",
                    "SELECT FROM held WHERE scope IN ('account', 'endpoint')",
                    "SELECT FROM held WHERE scope IN ('account')",
                ),
            ),
            ("only probes are called",),
        ),
    ),
    Seeded(
        "503s",
        known("a 5xx is taken for a refusal", "at most one acceptance", "no email used up"),
    ),
    Seeded(
        "throttling",
        Bug(
            "throttling counts as a refusal",
            (
                Patch(
                    "mail_service/domain/answers.py",
                    "error_code=code, pace=Pace.THROTTLED)",
                    "error_code=code, pace=Pace.SLOW)",
                ),
            ),
            ("no email used up an attempt",),
        ),
    ),
    Seeded(
        "lost answers",
        known("events are matched by MessageId alone", "an accepted call whose event"),
    ),
    Seeded(
        "lost answers",
        known("the sweep does not look at expired leases", "everything came to rest"),
    ),
)


def main() -> int:
    """Run each bug's weather; gives 0 only if each was seen and the control was green."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.weather.sensitivity", description=__doc__
    )
    parser.add_argument("--only", default="", metavar="WORDS", help="bugs whose name contains this")
    asked = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    shown = Table("seeded bug", "seconds", "rules that broke", "verdict")
    missed = 0
    with tempfile.TemporaryDirectory(prefix="sensitivity-") as kept:
        sound = copied(Path(kept))
        for seeded in (seeded for seeded in BUGS if asked.only in seeded.bug.name):
            missed += not _seen(seeded, sound, console, shown)
    console.print(shown)
    return 1 if missed else 0


def _seen(seeded: Seeded, sound: Path, console: Console, shown: Table) -> bool:
    """Run one weather against one bug; says whether it was seen as it should be."""
    begun = time.monotonic()
    weathers = [weather for weather in WEATHERS if seeded.weather in weather.name]
    with tempfile.TemporaryDirectory(prefix="sensitivity-") as directory:
        asked = quick(weathers, source=patched(seeded.bug, sound, Path(directory)))
        if seeded.bug.caught_by:
            asked = replace(asked, settles_within=25)
        outcome = run(asked, Console(file=io.StringIO(), width=140))
    rules = sorted({v.rule for judged in outcome.verdicts for v in judged if v.violations})
    caught_by = seeded.bug.caught_by
    right = any(rule.startswith(caught_by) for rule in rules) if caught_by else not rules
    took = f"{time.monotonic() - begun:.0f}"
    word = "as expected" if right else "[red]MISSED[/red]"
    if not right:
        console.print("\n".join(outcome.violations[:10]), highlight=False, markup=False)
    shown.add_row(seeded.bug.name, took, "; ".join(rules), word)
    console.print(f"{seeded.bug.name}: {word} ({took} s)", highlight=False)
    return right


if __name__ == "__main__":
    sys.exit(main())
