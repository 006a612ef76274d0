"""One run from the first process to the verdict."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from rich.console import Console

from mail_service.sandbox.simulator import SIMULATOR_DOMAIN
from tests.campaign.auditor import Verdict
from tests.chaos import report, verdict
from tests.chaos.load import Load
from tests.chaos.nemesis import Nemesis
from tests.chaos.people import Forger, Operator
from tests.chaos.plan import Plan
from tests.chaos.stage import Stage
from tests.chaos.verdict import Asked, Outcome, Run
from tests.chaos.witness import Witness

SLOWEST_PER_SECOND = 5
DUE_IN_SECONDS = 3.0
DUE_GOES_WITHIN = 15.0
CLIENT_MOVES_WITHIN = 150.0
"""Seconds after which some client must have got on; each gives up a request before."""


def run(asked: Asked, console: Console) -> Outcome:
    """Run once and print its table."""
    outcome = play(asked, console)
    show(outcome, console)
    return outcome


def show(outcome: Outcome, console: Console) -> None:
    """Print the table of a run, and what broke."""
    console.print(report.table(outcome.title, outcome.facts, outcome.points, outcome.verdicts))
    for violation in outcome.violations[:25]:
        console.print(violation, highlight=False, markup=False)


def play(asked: Asked, console: Console) -> Outcome:
    """Run once; on the console only how far it is."""
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as made,
        Stage(_directory(asked, made), asked.seed, asked.source, calm=asked.control) as stage,
    ):
        if asked.mix:
            stage.world(mix=dict(asked.mix))
        parts = _parts(asked, stage)
        try:
            with report.Watch(console, asked.emails) as watch:
                outcome = _play(parts, watch)
        finally:
            parts.load.abandon()
            parts.operator.stop()
            parts.forger.stop()
            parts.witness.stop()
    outcome.facts["seconds"] = f"{time.monotonic() - begun:.0f}"
    return outcome


def _parts(asked: Asked, stage: Stage) -> Run:
    load = Load(
        stage.processes.port,
        stage.processes.api.key,
        emails=asked.emails,
        seed=asked.seed,
        calm=asked.control,
    )
    plan = Plan.for_size(asked.emails)
    share = max(1, asked.emails // plan.meals)
    numbers = count(1)

    def ask(kind: str) -> str | None:
        name = f"urgent-{asked.seed}-{next(numbers)}"
        return load.urgent(name, f"{kind}+{name}@{SIMULATOR_DOMAIN}")

    nemesis = Nemesis(stage, asked.seed, plan, feed=lambda: load.grant(share), ask=ask)

    def stuck(port: int) -> bool:
        worker = stage.worker_behind(port)
        return not stage.proxy.passes(port) or nemesis.harm.is_frozen(worker)

    return Run(
        asked,
        stage,
        load,
        nemesis,
        Operator(stage, asked.seed),
        Forger(stage, asked.seed),
        Witness(stage.processes.url, stuck),
    )


def _directory(asked: Asked, made: str) -> Path:
    if asked.keep is None:
        return Path(made)
    asked.keep.mkdir(parents=True, exist_ok=True)
    if any(asked.keep.iterdir()):
        raise SystemExit(
            f"{asked.keep} is not empty: the logs of another run would be judged with it"
        )
    return asked.keep


def _play(run: Run, watch: report.Watch) -> Outcome:
    asked, load = run.asked, run.load
    if asked.control:
        load.grant()
    else:
        run.operator.start()
        run.forger.start()
        if broken := _harm(run, watch):
            return Outcome(verdict.title(asked), broken, {}, {})
    load.finish(
        CLIENT_MOVES_WITHIN, lambda: watch.stands("waiting for the clients", 1.0, load.done)
    )
    return verdict.reach(
        run, _settle(run, lambda left: watch.stands(f"coming to rest, {left} left", 1.0, load.done))
    )


def _harm(run: Run, watch: report.Watch) -> list[Verdict]:
    """Deal the deck; gives what is broken already, where the run was to end at the first."""
    nemesis, asked = run.nemesis, run.asked
    nemesis.begin()
    try:
        deck = [*asked.first, *(kind for kind in nemesis.deck if kind not in asked.without)]
        for number, kind in enumerate(deck):
            watch.stands(kind, number / len(deck), run.load.done)
            nemesis.deal(kind)
            if asked.to_the_first and (broken := verdict.so_far(run, asked.to_the_first)):
                return broken
        for _ in range(asked.aimed_again):
            for kind in nemesis.unmet():
                watch.stands(f"{kind}, once more", 1.0, run.load.done)
                nemesis.deal(kind)
    finally:
        nemesis.end()
    return []


def _settle(run: Run, tell: Callable[[int], None]) -> str:
    """Wait until nothing is open and every event was told; gives what did not happen in time."""
    stage, seconds = run.stage, run.asked.settles_within
    try:
        _wait_for_none(stage.open, "nothing is open", seconds, tell)
        run.operator.stop()
        run.forger.stop()
        _wait_for_none(stage.untold, "every event is told", seconds, tell)
        _wait_for_none(stage.open, "nothing is open", seconds, tell)
        stage.wait_for_a_sweep()
        _wait_for_none(stage.open, "nothing is open", seconds, tell)
        _what_becomes_due_goes_out(run, tell)
    except AssertionError as late:
        return str(late)[:200]
    return ""


def _what_becomes_due_goes_out(run: Run, tell: Callable[[int], None]) -> None:
    """Write one email for later, and wait until it went out although nobody says that it is due (L5)."""
    name = f"later-{run.asked.seed}"
    due = datetime.now(UTC) + timedelta(seconds=DUE_IN_SECONDS)
    run.load.later(name, f"success+{name}@{SIMULATOR_DOMAIN}", due)
    _wait_for_none(
        run.stage.open, "what became due went out (L5)", DUE_IN_SECONDS + DUE_GOES_WITHIN, tell
    )
    _wait_for_none(run.stage.untold, "every event is told", run.asked.settles_within, tell)


def _wait_for_none(
    count: Callable[[], int], what: str, seconds: float, tell: Callable[[int], None]
) -> None:
    """Wait for a count of zero, for so long and as long as a slow machine needs for so many."""
    left = count()
    deadline = time.monotonic() + seconds + left / SLOWEST_PER_SECOND
    while left:
        tell(left)
        assert time.monotonic() < deadline, f"{left} left: {what}"
        time.sleep(0.1)
        left = count()
