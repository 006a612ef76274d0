"""One campaign from the first process to the verdict."""

from __future__ import annotations

import random
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tests.campaign import auditor, report
from tests.campaign.auditor import Verdict
from tests.campaign.load import MIX, Load
from tests.campaign.nemesis import Nemesis, Tally
from tests.campaign.stage import SETTINGS, Stage
from tests.journeys.programs import ROOT, until

SETTLES_WITHIN = 60.0
PAUSE = float(SETTINGS["LEASE_SECONDS"]) + 1.5
EMAILS_PER_PAUSE = 400
MOST_STRIKES = 3
"""Strikes per kill asked for, at most, while the windows are not yet hit often enough."""


@dataclass(frozen=True)
class Outcome:
    """What a campaign found."""

    verdicts: list[Verdict]
    tally: Tally
    facts: dict[str, object]

    @property
    def violations(self) -> list[str]:
        """Everything that broke a rule."""
        return [f"{v.rule}: {broken}" for v in self.verdicts for broken in v.violations]

    @property
    def passed(self) -> bool:
        """No violation, and each window was hit often enough."""
        return not self.violations and self.tally.enough


def run(
    *,
    emails: int,
    kills: int,
    seed: int,
    console: Console,
    source: Path = ROOT,
    settles_within: float = SETTLES_WITHIN,
    most_strikes: int = MOST_STRIKES,
    mix: Mapping[str, int] = MIX,
) -> Outcome:
    """Run a campaign and print its table."""
    begun = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="campaign-") as directory,
        Stage(Path(directory), seed, source) as stage,
    ):
        load = Load(
            stage.processes.port, stage.processes.api.key, emails=emails, seed=seed, mix=mix
        )
        share = max(1, emails // (kills + 1))
        nemesis = Nemesis(stage, seed, feed=lambda: load.grant(share))
        try:
            with report.Watch(console, kills, emails) as watch:
                _strike(load, nemesis, watch, emails, kills, seed, most_strikes)
                watch.stands("waiting for the clients", nemesis.tally, load.done)
                stage.hurry()
                load.finish(90)
                settled = _settle(stage, settles_within)
        finally:
            load.abandon()
        outcome = _judge(stage, load, nemesis.tally, settled)
        states = dict(sorted(stage.processes.states().items()))
    outcome.facts["emails by state"] = ", ".join(f"{n} {state}" for state, n in states.items())
    outcome.facts["seconds"] = f"{time.monotonic() - begun:.1f}"
    title = f"campaign: {emails} emails, {kills} kills, seed {seed}"
    console.print(report.table(title, outcome.facts, outcome.verdicts, outcome.tally))
    for violation in outcome.violations[:20]:
        console.print(violation, highlight=False, markup=False)
    return outcome


def _strike(
    load: Load,
    nemesis: Nemesis,
    watch: report.Watch,
    emails: int,
    kills: int,
    seed: int,
    most_strikes: int,
) -> None:
    """Kill as often as asked, and further until each window was hit often enough."""
    pauses = emails // EMAILS_PER_PAUSE
    pause_after = set(random.Random(seed).sample(range(1, max(kills, 2)), min(pauses, kills - 1)))
    for strike in range(kills * most_strikes):
        if strike >= kills and nemesis.tally.enough:
            return
        what = nemesis.strike()
        watch.stands(what, nemesis.tally, load.done)
        if strike in pause_after:
            nemesis.pause(PAUSE)


def _settle(stage: Stage, seconds: float) -> bool:
    """Wait until nothing is open and every event was told; False if that does not happen.

    The events that were held back go last: until then what is in doubt must stay in doubt.
    """
    try:
        until(stage.settled, "nothing is pending or sending", seconds)
    except AssertionError:
        stage.release()
        return False
    stage.release()
    try:
        until(stage.send_events_told, "Send events are told", seconds)
        until(stage.settled, "nothing is pending or sending", seconds)
        stage.wait_for_a_sweep()
    except AssertionError:
        return False
    return True


def _judge(stage: Stage, load: Load, tally: Tally, settled: bool) -> Outcome:
    stage.calls.refresh()
    deliveries = stage.deliveries()
    evidence = auditor.collect(
        stage.processes.sql,
        answered=load.answered,
        unanswered=load.unanswered,
        calls=stage.calls.rows,
        deliveries=deliveries,
        never_called=tally.claimed_only,
    )
    calm = Verdict("everything came to rest")
    calm.check(settled, f"still open: {stage.processes.states()}")
    healthy = Verdict("every process runs, every log line is JSON without a secret")
    running = [stage.web, stage.clock, stage.sandbox, *stage.workers.values()]
    for program in running:
        healthy.check(program.running, program.tail())
    try:
        stage.processes.check_logs()
    except AssertionError as fault:
        healthy.check(False, str(fault)[:500])
    events = Counter(call["event"] for call in stage.calls.rows)
    attempts = Counter(row["state"] for row in evidence.attempts)
    facts: dict[str, object] = {
        "sign-ups answered 2xx": len({said.key for said in load.answered}),
        "of these replayed by key": sum(said.replayed for said in load.answered),
        "requests repeated by the client": load.retries,
        "calls that SES saw": events["arrived"],
        "of these accepted": events["accepted"],
        "event deliveries tried": len(deliveries),
        "attempts by state": ", ".join(f"{n} {state}" for state, n in sorted(attempts.items())),
        "workers killed": tally.kills["worker"],
        "web processes killed": tally.kills["web"],
        "workers frozen past their leases": tally.pauses,
    }
    return Outcome(verdicts=[*auditor.judge(evidence), calm, healthy], tally=tally, facts=facts)
