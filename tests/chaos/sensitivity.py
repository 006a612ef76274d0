"""Proves the chaos run: each seeded bug must turn it red. ``python -m tests.chaos.sensitivity``

The bugs are patches of a copy of the tree, as in the crash campaign, from which three are taken. A run
ends at the first broken rule; a bug that two seeds did not show gets a third.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.campaign.sensitivity import copied, patched
from tests.chaos.bugs import BUGS, Seeded
from tests.chaos.run import run
from tests.chaos.verdict import SETTLES_WITHIN, Asked


def main() -> int:
    """Run chaos against each bug; gives 0 only if each was seen within three seeds."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.sensitivity", description=__doc__)
    parser.add_argument("--emails", type=int, default=500)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--only", default="", metavar="WORDS", help="bugs whose name contains this")
    asked = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    shown = Table("seeded bug", "seed", "seconds", "rules that broke", "verdict")
    missed = 0
    with tempfile.TemporaryDirectory(prefix="sensitivity-") as kept:
        sound = copied(Path(kept))
        for seeded in (seeded for seeded in BUGS if asked.only in seeded.bug.name):
            missed += not _seen(seeded, sound, asked, console, shown)
    console.print(shown)
    return 1 if missed else 0


def _seen(
    seeded: Seeded, sound: Path, asked: argparse.Namespace, console: Console, shown: Table
) -> bool:
    """Run until a seed shows the bug as it should be shown."""
    for seed in asked.seeds:
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="sensitivity-") as directory:
            outcome = run(
                Asked(
                    emails=asked.emails,
                    seed=seed,
                    source=patched(seeded.bug, sound, Path(directory)),
                    # What never comes to rest with the bug need not be waited for as long.
                    settles_within=25 if seeded.bug.caught_by else SETTLES_WITHIN,
                    first=seeded.first,
                    to_the_first=seeded.bug.caught_by,
                ),
                Console(file=io.StringIO(), width=140),
            )
            shutil.rmtree(Path(directory) / "source")
        rules = sorted({v.rule for v in outcome.verdicts if v.violations})
        caught_by = seeded.bug.caught_by
        right = any(rule.startswith(caught_by) for rule in rules) if caught_by else not rules
        took = f"{time.monotonic() - begun:.0f}"
        word = "as expected" if right else "[red]MISSED[/red]"
        names = "; ".join(rule[:40] for rule in rules)
        shown.add_row(seeded.bug.name, str(seed), took, names, word)
        for violation in [] if right else outcome.violations[:5]:
            console.print(f"  {violation}"[:300], highlight=False, markup=False)
        console.print(
            f"{seeded.bug.name}: {word} ({took} s, seed {seed}): {names}", highlight=False
        )
        if right or not caught_by:
            return right
    return False


if __name__ == "__main__":
    sys.exit(main())
