"""``python -m tests.weather``: exit 0 only if every weather went by as promised."""

from __future__ import annotations

import argparse
import sys

from rich.console import Console

from tests.weather.run import as_shipped, run
from tests.weather.weathers import WEATHERS


def main() -> int:
    """Run the weathers; gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.weather", description=__doc__)
    parser.add_argument("--emails", type=int, default=1000)
    parser.add_argument("--only", default="", metavar="NAME", help="those whose name contains this")
    asked = parser.parse_args()
    chosen = [weather for weather in WEATHERS if asked.only in weather.name]
    if not chosen:
        parser.error(f"no such weather; there are: {', '.join(w.name for w in WEATHERS)}")
    console = Console(width=None if sys.stdout.isatty() else 200)
    outcome = run(as_shipped(asked.emails, chosen), console)
    return 1 if outcome.violations else 0


if __name__ == "__main__":
    sys.exit(main())
