"""One run of a bench: the profile is measured, what was found is printed, and everything is stopped."""

import os
import signal
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from types import FrameType
from typing import Any

import typer
from psycopg import sql
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mail_service.cli import (
    bench_cases,
    bench_depth,
    bench_formation,
    bench_report,
    bench_web,
    session,
)
from mail_service.cli.bench_cases import Case, Goal
from mail_service.cli.bench_pipeline import OURS, RAW, cases
from mail_service.cli.bench_place import Place
from mail_service.cli.bench_sizes import QUICK, Sizes

LATENCIES = (0.0, 0.05)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Stop(BaseException):
    """Somebody asked the bench to end."""


def profile() -> list[Case]:
    """Give what the product measures of itself."""
    return [
        *cases([RAW, OURS], LATENCIES),
        *bench_formation.CASES,
        *bench_web.CASES,
        *bench_depth.cases(),
    ]


def sized(*, quick: bool, given: dict[str, int | None]) -> Sizes:
    """Give the sizes of a run: whole or quick, and what was asked for instead."""
    known = {field.name for field in fields(Sizes)}
    asked: dict[str, Any] = {k: v for k, v in given.items() if v is not None and k in known}
    return replace(QUICK if quick else Sizes(), **asked)


def measure(
    wanted: Sequence[Case],
    goals: Sequence[Goal],
    sizes: Sizes,
    *,
    only: Sequence[str],
    as_json: bool,
) -> tuple[int, dict[str, Any]]:
    """Run the cases and print what was found; gives the exit status and the findings.

    Whatever was started is stopped, also after Ctrl-C.
    """
    chosen = [case for case in wanted if not only or any(word in case.group for word in only)]
    if not chosen:
        groups = "\n  ".join(dict.fromkeys(case.group for case in wanted))
        raise typer.BadParameter(f"no group is named so. There are:\n  {groups}")
    before = {number: signal.signal(number, _stop) for number in _SIGNALS}
    try:
        with Place(os.environ.get("DATABASE_URL") or None) as place:
            try:
                version = str(place.database.value(sql.SQL("SHOW server_version")))
                with _progress(bench_cases.steps(chosen, sizes)) as progress:
                    outcomes = bench_cases.run(chosen, place, sizes, progress)
            finally:
                # Nothing may interrupt the cleaning up, each step of which has an end of its own.
                for number in _SIGNALS:
                    signal.signal(number, signal.SIG_IGN)
    except _Stop:
        typer.echo("stopped; nothing is left behind", err=True)
        return 130, {}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    findings = bench_report.as_json(outcomes, goals, sizes, version)
    if as_json:
        session.print_json(findings)
    else:
        bench_report.show(outcomes, goals, session.console())
    wrong = bench_report.problems(outcomes)
    for problem in wrong:
        typer.echo(problem, err=True)
    return (1 if wrong else 0), findings


@contextmanager
def _progress(steps: int) -> Generator[bench_cases.Progress]:
    """Show a bar on a terminal, a line per run elsewhere; on stderr, so that output can be piped."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        began = time.monotonic()

        def tell(group: str, case: str, repetition: int) -> None:
            seconds = time.monotonic() - began
            sys.stderr.write(f"{seconds:6.0f} s  {group}: {case}, run {repetition}\n")
            sys.stderr.flush()

        yield tell
        return
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=steps)
        begun = 0

        def show(group: str, case: str, repetition: int) -> None:
            nonlocal begun
            bar.update(task, completed=begun, description=f"{group}: {case}, run {repetition}")
            begun += 1

        yield show
        bar.update(task, completed=steps, description="")


def _stop(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise _Stop
