"""One run from the first process to the verdict."""

from __future__ import annotations

import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path

import psycopg
from rich.console import Console

from tests.campaign.auditor import Verdict
from tests.chaos import report, verdict
from tests.chaos.load import Load
from tests.chaos.nemesis import Nemesis
from tests.chaos.people import Forger, Operator
from tests.chaos.plan import Plan
from tests.chaos.stage import CONNECTIONS, Stage
from tests.chaos.verdict import Asked, Outcome, Run
from tests.journeys.programs import until


class Meter:
    """Samples how many connections the product has."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._stop = threading.Event()
        self.most = 0
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            with suppress(psycopg.Error):
                self.most = max(self.most, self._stage.connections())


def run(asked: Asked, console: Console) -> Outcome:
    """Run once and print its table."""
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="chaos-") as made,
        Stage(_directory(asked, made), asked.seed, asked.source, calm=asked.control) as stage,
    ):
        if asked.mix:
            stage.world(mix=dict(asked.mix))
        load = Load(
            stage.processes.port, stage.processes.api.key, emails=asked.emails, seed=asked.seed
        )
        plan = Plan.for_size(asked.emails)
        share = max(1, asked.emails // plan.meals)
        nemesis = Nemesis(stage, asked.seed, plan, feed=lambda: load.grant(share))
        operator, forger = Operator(stage, asked.seed), Forger(stage, asked.seed)
        parts = Run(asked, stage, load, nemesis, operator, forger)
        meter = Meter(stage)
        try:
            with report.Watch(console, asked.emails) as watch:
                outcome = _play(parts, watch)
        finally:
            load.abandon()
            operator.stop()
            forger.stop()
            meter.stop()
        outcome.facts["most connections of the product"] = f"{meter.most} of {CONNECTIONS}"
    outcome.facts["seconds"] = f"{time.monotonic() - begun:.0f}"
    kind = "control" if asked.control else "chaos"
    title = f"{kind}: {asked.emails} emails, seed {asked.seed}"
    console.print(report.table(title, outcome.facts, outcome.points, outcome.verdicts))
    for violation in outcome.violations[:25]:
        console.print(violation, highlight=False, markup=False)
    return outcome


def _directory(asked: Asked, made: str) -> Path:
    if asked.keep is None:
        return Path(made)
    asked.keep.mkdir(parents=True, exist_ok=True)
    return asked.keep


def _play(run: Run, watch: report.Watch) -> Outcome:
    asked, load = run.asked, run.load
    if asked.control:
        load.grant()
    else:
        run.operator.start()
        run.forger.start()
        if broken := _harm(run, watch):
            return Outcome(broken, {}, {})
    watch.show("waiting for the clients", 1.0, load.done)
    load.finish(asked.settles_within + 60 + asked.emails / 20)
    watch.show("coming to rest", 1.0, load.done)
    return verdict.reach(run, _settle(run))


def _harm(run: Run, watch: report.Watch) -> list[Verdict]:
    """Deal the deck; gives what is broken already, where the run was to end at the first."""
    nemesis, asked = run.nemesis, run.asked
    nemesis.begin()
    try:
        deck = [*asked.first, *(kind for kind in nemesis.deck if kind not in asked.without)]
        for number, kind in enumerate(deck):
            watch.show(kind, number / len(deck), run.load.done)
            nemesis.deal(kind)
            if asked.to_the_first and (broken := verdict.so_far(run, asked.to_the_first)):
                return broken
        for _ in range(asked.aimed_again):
            for kind in nemesis.unmet():
                watch.show(f"{kind}, once more", 1.0, run.load.done)
                nemesis.deal(kind)
    finally:
        nemesis.end()
    return []


def _settle(run: Run) -> str:
    """Wait until nothing is open and every event was told; gives what did not happen in time."""
    stage, seconds = run.stage, run.asked.settles_within
    try:
        until(stage.settled, "nothing is pending or sending", seconds)
        run.operator.stop()
        run.forger.stop()
        until(stage.told, "every event is told", seconds)
        until(stage.settled, "nothing is pending or sending", seconds)
        stage.wait_for_a_sweep()
        until(stage.settled, "nothing is pending or sending", seconds)
    except AssertionError as late:
        return str(late)[:200]
    return ""
