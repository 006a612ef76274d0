"""``python -m benchmarks.storm``: SNS brings everything again and again, and new events, and at bad moments.

The real web process on a real PostgreSQL with its default durability, while people sign up and
somebody reads /readyz. The tables are compared before and after: a redelivery may not write a row.
Exit 1 where something had an effect twice, was lost, or was answered later than SNS waits.
"""

import logging
import math
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import structlog
import typer
from psycopg import sql
from rich.table import Table

from benchmarks import storm_cost
from benchmarks.storm_parts import Storm
from benchmarks.storm_web import Weather, Web
from mail_service import logs
from mail_service.cli import bench_report, progress, session
from mail_service.cli.bench_cases import Case, Figures, Goal, Outcome
from mail_service.cli.bench_formation import web
from mail_service.cli.bench_place import Place
from mail_service.cli.bench_sizes import Sizes
from mail_service.cli.bench_web import bare
from mail_service.errors import MailServiceError

STORM, COST = "storm", "an event in one thread"
BARE, NEW, MORE, AGAIN = "bare route", "new", "new, with bounces", "again"
AGAIN_LOCKED, NEW_LOCKED, PROOFS_LOCKED = (
    "again, rows locked",
    "new, rows locked",
    "proofs, rows locked",
)
GOALS = (
    *(
        Goal(
            text=f"{stream}, {case}: {figure}",
            value=lambda medians, s=stream, c=case, f=figure: medians(STORM, c, f"{s} {f}"),
            bound=bound,
        )
        for case in (NEW, MORE, AGAIN, AGAIN_LOCKED, NEW_LOCKED, PROOFS_LOCKED)
        for stream in ("webhook", "intake")
        for figure, bound in (("p99 ms", 1000), ("longest ms", 15000))
    ),
    *(
        Goal(
            text=f"deliveries/s, {case}, to the bare route",
            value=lambda medians, c=case: (
                medians(STORM, c, "deliveries/s") / medians(STORM, BARE, "deliveries/s")
            ),
            bound=0.60,
            at_least=True,
        )
        for case in (NEW, AGAIN)
    ),
)
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class _Stop(BaseException):
    """Somebody asked the storm to end."""


def main(
    redeliveries: Annotated[int, typer.Option(min=100, help="Of all events together.")] = 100_000,
    emails: Annotated[int, typer.Option(min=50, help="Submitted; two events of each.")] = 2000,
    connections: Annotated[int, typer.Option(min=1, help="On which events are brought.")] = 64,
    signups: Annotated[float, typer.Option(min=0.1, help="A second, throughout.")] = 10,
    seed: Annotated[int, typer.Option(help="Of the order.")] = 1,
    as_json: session.AsJson = False,
) -> None:
    """Let it storm and print one table."""
    weather = Weather(
        redeliveries=redeliveries,
        emails=emails,
        connections=connections,
        signups=signups,
        locked=emails // 10,
        seed=seed,
    )
    try:
        with _stoppable(), _logging(), Place(os.environ.get("DATABASE_URL") or None) as place:
            try:
                found = _all(place, weather)
                version = str(place.database.value(sql.SQL("SHOW server_version")))
            finally:
                # Nothing may interrupt the cleaning up, each step of which has an end of its own.
                for number in _SIGNALS:
                    signal.signal(number, signal.SIG_IGN)
    except _Stop:
        typer.echo("stopped; nothing is left behind", err=True)
        raise typer.Exit(130) from None
    _tell(found, weather, version, as_json=as_json)
    raise typer.Exit(1 if wrong(found) else 0)


def _all(place: Place, weather: Weather) -> list[Outcome]:
    """Measure everything, each part from what the one before it left."""
    found: list[Outcome] = []

    def add(group: str, name: str, figures: Figures) -> None:
        case = Case(group=group, name=name, measure=lambda place, sizes: figures, once=True)
        found.append(Outcome(case, [figures]))

    with progress.shown(COST) as tell:
        new, again = storm_cost.split(place, Storm(place, weather), tell)
    add(COST, NEW, new)
    add(COST, AGAIN, again)
    storm = Storm(place, weather)
    with bare(place) as running, progress.shown(BARE) as tell:
        bare_web = Web(
            place=place,
            running=running,
            weather=weather,
            events="/events",
            accounts="/accounts",
            ready="/ready",
        )
        add(STORM, BARE, storm.bare(bare_web, tell))
    storm = Storm(place, weather)
    with web(place) as (running, key):
        ours = Web(place=place, running=running, weather=weather, key=key)
        for name, part in (
            (NEW, storm.new),
            (MORE, storm.more),
            (AGAIN, storm.again),
            (AGAIN_LOCKED, storm.again_while_locked),
            (NEW_LOCKED, storm.new_while_locked),
            (PROOFS_LOCKED, storm.proofs_while_locked),
        ):
            with progress.shown(name) as tell:
                add(STORM, name, part(ours, tell))
    return found


def wrong(found: list[Outcome]) -> list[str]:
    """Name what breaks a promise: an effect twice, an event lost, an answer after SNS gave up."""
    late = [
        f"{one.case.name}: {name} {run[name]:.0f}"
        for one in found
        for run in one.runs
        for name in run
        if name.endswith("longest ms") and run[name] > 15000
    ]
    return [*bench_report.problems(found), *late]


def _tell(found: list[Outcome], weather: Weather, version: str, *, as_json: bool) -> None:
    if as_json:
        findings: dict[str, Any] = bench_report.as_json(found, GOALS, Sizes(), version)
        findings["sizes"] = {name: getattr(weather, name) for name in weather.__slots__}
        session.print_json(findings)
    else:
        console = session.console()
        for group in (STORM, COST):
            parts = [one for one in found if one.case.group == group]
            table = Table(
                title=group, title_justify="left", title_style="bold", box=None, pad_edge=False
            )
            for heading in ("", *(one.case.name for one in parts)):
                table.add_column(heading, justify="right" if heading else "left")
            for name in dict.fromkeys(name for one in parts for name in one.names()):
                table.add_row(name, *(_shown(one.median(name)) for one in parts))
            console.print(table)
            console.print()
        for goal, value in bench_report.judged(GOALS, found):
            word = "met" if goal.met(value) else "missed"
            console.print(f"{word:7}{goal.text}: {_shown(value)}")
    for problem in wrong(found):
        typer.echo(problem, err=True)


@contextmanager
def _logging() -> Generator[None]:
    """Have lines logged as a web process does, and read by nobody: they are part of what an event costs."""
    with Path(os.devnull).open("w") as sink:
        with redirect_stdout(sink):
            logs.configure("INFO", process="web")
        yield
        logging.getLogger().handlers.clear()


def _shown(value: float) -> str:
    if math.isnan(value):
        return "-"
    return f"{value:,.0f}" if value == int(value) or abs(value) >= 100 else f"{value:.3g}"


@contextmanager
def _stoppable() -> Generator[None]:
    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        raise _Stop

    for number in _SIGNALS:
        signal.signal(number, stop)
    yield


if __name__ == "__main__":
    structlog.reset_defaults()
    try:
        typer.run(main)
    except MailServiceError as problem:
        typer.echo(str(problem), err=True)
        sys.exit(1)
