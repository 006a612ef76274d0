"""``python -m tests.campaign``: exit 0 only without a violation and with every window hit often enough."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from tests.campaign.campaign import run


def main() -> int:
    """Run one campaign; gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__)
    parser.add_argument("--emails", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140)
    outcome = run(emails=asked.emails, kills=asked.kills, seed=asked.seed, console=console)
    return 0 if outcome.passed else 1


if __name__ == "__main__":
    sys.exit(main())
