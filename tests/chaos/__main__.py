"""``python -m tests.chaos``: exit 0 only without a violation and with every fault met."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from tests.chaos.run import run
from tests.chaos.verdict import Asked


def main() -> int:
    """Run once; gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--emails", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--control", action="store_true", help="without a single fault")
    parser.add_argument("--keep", type=Path, help="a directory for the logs, which stay there")
    asked = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140)
    outcome = run(
        Asked(emails=asked.emails, seed=asked.seed, control=asked.control, keep=asked.keep),
        console,
    )
    return 1 if outcome.violations or outcome.unmet else 0


if __name__ == "__main__":
    sys.exit(main())
