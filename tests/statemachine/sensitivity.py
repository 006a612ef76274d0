"""Proves the machine: each seeded bug must turn it red. ``python -m tests.statemachine.sensitivity``

A bug is a patch of a copy of the tree; the copy's own tests run against it, one at a time. It is tried
with one seed after another until it is seen: around the story that is nearest to it, then around all
of them. The bug that is none must stay green with every seed.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.campaign import seeding
from tests.statemachine.bugs import BUGS
from tests.statemachine.seeding import Bug

SOURCES = ("mail_service", "actors", "api", "migrations", "tests", "pyproject.toml")
MACHINE = "tests/statemachine/test_machine.py::test_no_schedule_breaks_a_promise"
SECONDS = 3600


@dataclass(frozen=True)
class Run:
    """What one run of the machine came to. ``broken`` is empty when it was green."""

    seed: int
    seconds: float
    examples: int
    broken: frozenset[str]
    output: str


def patched(bug: Bug, directory: Path) -> Path:
    """Copy the tree and put the bug in; gives where it is."""
    source = seeding.copied(SOURCES, directory / "source")
    seeding.seed(bug.name, bug.patches, source)
    return source


def run(source: Path, seed: int, asked: argparse.Namespace, story: str = "") -> Run:
    """Run the machine in a copy, around one story or all."""
    environ = os.environ | {
        "PYTHONPATH": str(source),
        "PYTHONDONTWRITEBYTECODE": "1",
        "STATE_MACHINE_EXAMPLES": str(asked.examples),
        "STATE_MACHINE_STEPS": str(asked.steps),
        "STATE_MACHINE_SEED": str(seed),
        "STATE_MACHINE_SHRINK": "0",
    }
    tests = f"{MACHINE}[{story}]" if story else MACHINE
    begun = time.monotonic()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", tests, "--tb=short", "-s", "-x", "-p", "no:randomly"],
            cwd=source,
            env=environ,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        output = done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        output = "out of time"
    # test_machine.py prints what broke; a run that did not even come that far is no catch.
    found = re.search(r"^broken: (.*) in (\d+) examples$", output, re.MULTILINE)
    passed = re.search(r"(\d+) passed", output)
    before = int(passed[1]) * asked.examples if passed else 0  # stories that were told in vain
    if found:
        broken, examples = frozenset(found[1].split()), before + int(found[2])
    else:
        green = passed is not None and not re.search(r"failed|error", output)
        broken, examples = frozenset[str]() if green else frozenset({"crash"}), before
    return Run(seed, time.monotonic() - begun, examples, broken, output)


def try_out(bug: Bug, asked: argparse.Namespace) -> tuple[list[Run], bool]:
    """Run one bug with one seed after another; gives the runs, and whether they were as they should be."""
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="sensitivity-") as directory:
        source = patched(bug, Path(directory))
        for seed in range(asked.seed, asked.seed + asked.seeds):
            if bug.story:
                runs.append(run(source, seed, asked, bug.story))
            if not runs or not runs[-1].broken:
                runs.append(run(source, seed, asked))
            if runs[-1].broken:
                break
    last = runs[-1].broken
    return runs, bool(last & set(bug.promises)) if bug.promises else not last


def main() -> int:
    """Run the machine against each bug; gives 0 only if each was seen and the control was green."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.statemachine.sensitivity", description=__doc__
    )
    parser.add_argument("--examples", type=int, default=4, help="for each story")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--seeds", type=int, default=3, help="how many are tried")
    parser.add_argument("--only", default="", metavar="PATTERN", help="bugs whose name matches")
    asked = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 170)
    shown = Table("seeded bug", "lies in", "seed", "seconds", "examples", "broken", "verdict")
    missed = 0
    for bug in (bug for bug in BUGS if re.search(asked.only, bug.name)):
        runs, right = try_out(bug, asked)
        missed += not right
        verdict = "green" if right and not bug.promises else "caught" if right else "MISSED"
        row = (
            bug.name,
            ", ".join(sorted({patch.path for patch in bug.patches})),
            str(runs[-1].seed),
            f"{sum(run.seconds for run in runs):.0f}",
            str(sum(run.examples for run in runs)),
            " ".join(sorted(runs[-1].broken)),
            verdict,
        )
        shown.add_row(*row)
        print(" | ".join(row), file=sys.stderr, flush=True)  # noqa: T201 - how far it is
        if not right:
            print(runs[-1].output[-3000:], file=sys.stderr)  # noqa: T201
    console.print(shown)
    print(f"{missed} not as they should be")  # noqa: T201
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
