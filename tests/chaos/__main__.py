"""``python -m tests.chaos``: exit 0 only without a violation and with every fault met.

With ``--soak HOURS`` run after run, each with the next seed, until the time is over or one is red.
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import count
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.chaos.run import play, run, show
from tests.chaos.verdict import Asked, Outcome


def main() -> int:
    """Run once, or soak; gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--emails", type=int, default=1000, help="in each run")
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--control", action="store_true", help="without a single fault")
    parser.add_argument("--soak", type=float, metavar="HOURS", help="with new seeds for this long")
    parser.add_argument("--keep", type=Path, help="a directory for the logs, which stay there")
    asked = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140)
    first = Asked(emails=asked.emails, seed=asked.seed, control=asked.control, keep=asked.keep)
    if asked.soak is not None:
        return _soak(first, asked.soak, console)
    return 0 if run(first, console).green else 1


def _soak(first: Asked, hours: float, console: Console) -> int:
    """Run until the time is over; a run that is under way then is finished. Stops at the first red."""
    shown = Table("run", "seconds", "met", "violations", "verdict", title=f"soak: {hours:g} h")
    ends = time.monotonic() + hours * 3600
    outcome: Outcome | None = None
    for number in count():
        if outcome is not None and (not outcome.green or time.monotonic() > ends):
            break
        outcome = play(first.again(number), console)
        shown.add_row(
            outcome.title,
            str(outcome.facts.get("seconds", "")),
            f"{len(outcome.points) - len(outcome.unmet)} of {len(outcome.points)} faults",
            str(len(outcome.violations)),
            "ok" if outcome.green else "[red]RED[/red]",
        )
    if outcome is not None and not outcome.green:
        show(outcome, console)
    console.print(shown)
    return 0 if outcome is not None and outcome.green else 1


if __name__ == "__main__":
    sys.exit(main())
