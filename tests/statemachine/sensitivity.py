"""Proves the machine: each seeded bug must turn it red. ``python -m tests.statemachine.sensitivity``

A bug is a patch of a copy of the tree; the copy's own tests run against it. One at a time, on one core.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.statemachine.bugs import BUGS, Bug

ROOT = Path(__file__).parents[2]
SOURCES = ("mail_service", "actors", "api", "migrations", "tests", "pyproject.toml")
SECONDS = 600


def patched(bug: Bug, directory: Path) -> Path:
    """Copy the tree and put the bug in; gives where it is."""
    source = directory / "source"
    source.mkdir()
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / name, source / name)
    for patch in bug.patches:
        file = source / patch.path
        text = file.read_text()
        if text.count(patch.before) != 1:
            raise SystemExit(f"{bug.name}: its place in {patch.path} is not there any more")
        file.write_text(text.replace(patch.before, patch.after))
    return source


def run(source: Path, asked: argparse.Namespace) -> str:
    """Run the machine in a copy; gives what it printed."""
    environ = os.environ | {
        "PYTHONPATH": str(source),
        "PYTHONDONTWRITEBYTECODE": "1",
        "STATE_MACHINE_EXAMPLES": str(asked.examples),
        "STATE_MACHINE_STEPS": str(asked.steps),
        "STATE_MACHINE_SHRINK": "0",
    }
    command = [sys.executable, "-m", "pytest", "tests/statemachine/test_machine.py", "--tb=short"]
    command += ["--show-capture=no", "-p", "no:randomly", f"--hypothesis-seed={asked.seed}"]
    try:
        done = subprocess.run(
            command,
            cwd=source,
            env=environ,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "out of time"
    return done.stdout + done.stderr


def main() -> int:
    """Run the machine against each bug; gives 0 only if each was seen and the control was green."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.statemachine.sensitivity", description=__doc__
    )
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", metavar="WORDS", help="bugs whose name contains this")
    asked = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 160)
    shown = Table("seeded bug", "seconds", "examples", "broken", "verdict")
    missed = 0
    for bug in (bug for bug in BUGS if asked.only in bug.name):
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="sensitivity-") as directory:
            output = run(patched(bug, Path(directory)), asked)
        took = f"{time.monotonic() - begun:.0f}"
        broken = sorted(set(re.findall(r"(?:Broken|AssertionError): ([SL]\d+)", output)))
        broken += sorted(set(re.findall(r"psycopg\.errors\.(\w+)", output)))
        examples = re.search(r"found in (\d+) examples", output)
        right = bool(set(broken) & set(bug.promises)) if bug.promises else " passed" in output
        missed += not right
        word = "as expected" if right else "[red]MISSED[/red]"
        shown.add_row(bug.name, took, examples[1] if examples else "", " ".join(broken), word)
        console.print(f"{bug.name}: {word} ({took} s, {' '.join(broken)})", highlight=False)
        if not right:
            console.print(output[-3000:], markup=False, highlight=False)
    console.print(shown)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
