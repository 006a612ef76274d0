"""``python -m tests.fuzz``: exit 0 only if every target ran its time and no promise was broken.

Needs atheris, which the project's lock does not hold (exit 2 without it).
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.fuzz.running import Ended, run
from tests.fuzz.targets import FOUND, TARGETS

MISSING = """atheris is not installed. `make fuzz` installs it; by hand:
  pip install --require-hashes --only-binary :all: -r tests/fuzz/requirements.txt
It has wheels for Linux on x86-64 with Python 3.11 to 3.14. Elsewhere, run `make fuzz` in a container such
as python:3.13. Every seed and every input ever found is part of `make test` too, without atheris."""


def main() -> int:
    """Run what is asked for; gives the exit status."""
    asked = _arguments()
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    if asked.again is not None:
        for name in asked.only or TARGETS:
            TARGETS[name].check(asked.again.read_bytes())
            console.print(f"{name}: the promise holds for this input")
        return 0
    if importlib.util.find_spec("atheris") is None:
        console.print(MISSING, markup=False)
        return 2
    ended = _run_all(console, asked)
    console.print(_table(ended))
    for one in ended:
        if not one.fine:
            console.print(_finding(one), markup=False)
    return 0 if all(one.fine for one in ended) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for each target (60)")
    parser.add_argument(
        "--only", action="append", choices=[*TARGETS], help="this target; may be repeated"
    )
    parser.add_argument("--jobs", type=int, default=1, help="targets at once (1)")
    parser.add_argument("--again", type=Path, metavar="FILE", help="only check one input")
    parser.add_argument(
        "--folder",
        type=Path,
        default=Path("build/fuzz"),
        help="where what was learned and found is kept (build/fuzz)",
    )
    return parser.parse_args()


def _run_all(console: Console, asked: argparse.Namespace) -> list[Ended]:
    chosen = [target for target in TARGETS.values() if target.name in (asked.only or TARGETS)]
    minutes = asked.seconds * -(-len(chosen) // asked.jobs) / 60
    console.print(f"{len(chosen)} targets, {asked.seconds} s each: {minutes:.0f} min in all")
    ended: list[Ended] = []
    with (
        ThreadPoolExecutor(asked.jobs) as pool,
        console.status("running") as status,
    ):
        running = [
            pool.submit(run, target, seconds=asked.seconds, folder=asked.folder.absolute())
            for target in chosen
        ]
        for done in as_completed(running):
            one = done.result()
            ended.append(one)
            console.print(f"{len(ended)} of {len(chosen)}: {_line(one)}", markup=False)
            status.update(f"{len(ended)} of {len(chosen)} targets have run")
    return ended


def _line(one: Ended) -> str:
    verdict = "nothing found" if one.fine else "BROKEN"
    return f"{one.name} {verdict}, {one.runs:,} runs, {one.corpus} inputs kept"


def _table(ended: list[Ended]) -> Table:
    table = Table("target", "runs", "runs/s", "corpus", "verdict", "promise")
    for one in ended:
        table.add_row(
            one.name,
            f"{one.runs:,}",
            f"{one.runs / one.seconds:,.0f}",
            str(one.corpus),
            "nothing found" if one.fine else "BROKEN",
            TARGETS[one.name].promise,
        )
    return table


def _finding(one: Ended) -> str:
    kept = FOUND / one.name
    ways = [
        f"again: python -m tests.fuzz --only {one.name} --again {path}\n"
        f"keep:  mkdir -p {kept} && cp {path} {kept}/"
        for path in one.findings
    ]
    return "\n".join([f"\n{one.name}, exit status {one.status}:", one.last_words, *ways])


if __name__ == "__main__":
    sys.exit(main())
