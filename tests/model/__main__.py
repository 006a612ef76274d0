"""``python -m tests.model``: exit 0 only if the protocol holds, all of it was seen, and no mutant lives.

Needs spin and gcc, which the project does not install (exit 2 without them).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from mail_service.domain.states import TRANSITIONS, EmailState
from tests.model.search import Found, NotRun, missing, retrace, search
from tests.model.variants import CORRECT, LARGE, MUTANTS, Variant

INSTALL = "apt-get install -y spin gcc"
EVERYTHING = {variant.name: variant for variant in (*CORRECT, *MUTANTS, LARGE)}


def main() -> int:
    """Search what is asked for; gives the exit status."""
    asked = _arguments()
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    if absent := missing():
        console.print(f"not installed: {', '.join(absent)}. On Debian: {INSTALL}")
        return 2
    chosen = [EVERYTHING[name] for name in asked.variants] or [*CORRECT, *MUTANTS]
    begun = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="model-") as folder:
            if asked.steps is not None:
                _show_steps(console, EVERYTHING[asked.steps], Path(folder))
                return 0
            found = _search_all(console, chosen, Path(folder), asked.jobs)
    except NotRun as problem:
        console.print(f"not run: {problem}", markup=False)
        return 1
    console.print(_table(found))
    unseen = _unseen(found) if set(CORRECT) <= set(chosen) else []
    for what in unseen:
        console.print(f"the correct model never shows: {what}", markup=False)
    wrong = sum(not passed(variant, seen) for variant, seen in found)
    right = len(found) - wrong
    console.print(f"{right} of {len(found)} as expected, {time.monotonic() - begun:.0f} s")
    return 1 if wrong or unseen else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.model",
        description=__doc__,
        epilog=f"variants: {' '.join(EVERYTHING)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = tuple(EVERYTHING)
    parser.add_argument(
        "variants", nargs="*", metavar="VARIANT", help=f"all but {LARGE.name} when none is named"
    )
    parser.add_argument("--jobs", type=int, default=1, help="searches at once (default 1)")
    parser.add_argument("--steps", metavar="MUTANT", choices=names, help="show how it is caught")
    asked = parser.parse_args()
    if unknown := set(asked.variants) - set(names):
        parser.error(f"no such variant: {', '.join(sorted(unknown))}")
    return asked


def passed(variant: Variant, found: Found) -> bool:
    """Say whether a search went as it must: a mutant caught by its promise, or everything seen."""
    if variant.correct:
        return found.broken is None and found.complete
    return found.broken == variant.broken_by


def _search_all(
    console: Console, chosen: Sequence[Variant], folder: Path, jobs: int
) -> list[tuple[Variant, Found]]:
    def one(variant: Variant) -> tuple[Variant, Found]:
        own = folder / variant.name
        own.mkdir()
        return variant, search(variant, own)

    with ThreadPoolExecutor(max(1, jobs)) as pool:
        return list(_told(console, pool.map(one, chosen), len(chosen)))


def _told(
    console: Console, searches: Iterable[tuple[Variant, Found]], count: int
) -> Iterable[tuple[Variant, Found]]:
    """Pass searches on, telling how far they are: a bar on a terminal, plain lines elsewhere."""
    if not console.is_terminal:
        for number, (variant, found) in enumerate(searches, 1):
            console.print(
                f"{number}/{count} {variant.name}: {_result(variant, found)}, "
                f"{found.states:,} states, {found.seconds:.1f} s",
                markup=False,
            )
            yield variant, found
        return
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    ) as bar:
        task = bar.add_task("searching", total=count)
        for variant, found in searches:
            bar.update(task, advance=1, description=f"{variant.name}: {_result(variant, found)}")
            yield variant, found


def _result(variant: Variant, found: Found) -> str:
    if found.broken is not None:
        return "ERROR" if variant.correct else "caught"
    if not found.complete:
        return "NOT EXHAUSTIVE"
    return "holds" if variant.correct else "MISSED"


def _table(found: Sequence[tuple[Variant, Found]]) -> Table:
    shown = Table("variant", "expected", "result", "property", title="The sending protocol")
    shown.add_column("states", justify="right")
    shown.add_column("MB", justify="right")
    shown.add_column("seconds", justify="right")
    for variant, seen in found:
        expected = "holds" if variant.correct else f"caught by {variant.broken_by}"
        result = _result(variant, seen)
        shown.add_row(
            variant.name,
            expected,
            result if passed(variant, seen) else f"[red]{result}[/red]",
            seen.broken or (variant.claim or "all" if variant.correct else ""),
            f"{seen.states:,}",
            f"{seen.megabytes:,.0f}",
            f"{seen.seconds:.1f}",
            end_section=variant == CORRECT[-1],
        )
    return shown


def _unseen(found: Sequence[tuple[Variant, Found]]) -> list[str]:
    """Name drawn edges and situations that no correct search came to: what is not seen is not checked."""
    correct = [seen for variant, seen in found if variant.correct]
    states = list(EmailState)
    taken = {(states[a], states[b]) for seen in correct for a, b in seen.edges}
    drawn = {(a, b) for a, ends in TRANSITIONS.items() for b in ends}
    situations = {name for seen in correct for name in seen.situations}
    shown = {name for seen in correct for name, was in seen.situations.items() if was}
    return sorted(f"{a} to {b}" for a, b in drawn - taken) + sorted(situations - shown)


def _show_steps(console: Console, variant: Variant, folder: Path) -> None:
    found = search(variant, folder)
    console.print(f"{variant.name}: {variant.what}; {_result(variant, found)}: {found.broken}")
    if found.broken is not None:
        for number, (who, line) in enumerate(retrace(folder), 1):
            console.print(f"{number:4} {who:8} {line}", markup=False)


if __name__ == "__main__":
    sys.exit(main())
