"""From everything that is left after a run to its outcome."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from mail_service.sandbox.simulator import SIMULATOR_DOMAIN
from tests.campaign import auditor as campaign
from tests.campaign.auditor import Verdict
from tests.chaos import absence, auditor, end_rules, evidence, report, time_rules
from tests.chaos.load import Load
from tests.chaos.nemesis import Nemesis
from tests.chaos.people import Forger, Operator
from tests.chaos.stage import CONNECTIONS, Stage
from tests.chaos.witness import Witness
from tests.journeys.programs import ROOT

SETTLES_WITHIN = 90.0

_NOWHERE = (
    "SELECT q::text AS text FROM dramatiq.queue q",
    "SELECT concat_ws(' ', error_class, error_code, decision) AS text FROM mail_service.send_attempts",
    "SELECT concat_ws(' ', reason, policy_note) AS text FROM mail_service.email_outbox",
    "SELECT concat_ws(' ', subject, error_class, error_code) AS text FROM mail_service.holds"
    " WHERE scope <> 'sender'",
)
"""Texts that no address belongs in."""


@dataclass(frozen=True)
class Asked:
    """What kind of run; ``control`` is one without a single fault."""

    emails: int
    seed: int
    control: bool = False
    source: Path = ROOT
    settles_within: float = SETTLES_WITHIN
    mix: Mapping[str, int] = field(default_factory=dict)
    """Other shares of the world's answers, in a hundred."""
    first: tuple[str, ...] = ()
    """Blows that come before all others."""
    without: tuple[str, ...] = ()
    """Blows that are left out of the deck."""
    aimed_again: int = 3
    """How often a blow that missed its window is tried again."""
    to_the_first: tuple[str, ...] = ()
    """End once a rule that begins with one of these is broken."""
    keep: Path | None = None

    def again(self, number: int) -> Asked:
        """Give the same with a later seed, whose logs are kept beside."""
        keep = None if self.keep is None else self.keep / str(self.seed + number)
        return replace(self, seed=self.seed + number, keep=keep)


@dataclass(frozen=True)
class Run:
    """The parts of one run."""

    asked: Asked
    stage: Stage
    load: Load
    nemesis: Nemesis
    operator: Operator
    forger: Forger
    witness: Witness


@dataclass(frozen=True)
class Outcome:
    """What a run found."""

    title: str
    verdicts: list[Verdict]
    points: dict[str, int]
    """How often each kind of fault was met."""
    facts: dict[str, object]

    @property
    def violations(self) -> list[str]:
        """Everything that broke a rule."""
        return [f"{v.rule}: {broken}" for v in self.verdicts for broken in v.violations]

    @property
    def green(self) -> bool:
        """Whether nothing broke and everything was met."""
        return not self.violations and not self.unmet

    @property
    def unmet(self) -> list[str]:
        """Faults that were never met: a green run without them proves nothing about them."""
        return [point for point, times in self.points.items() if not times]


LIVE = ("S4", "S5: at most", "S6", "S8", "S9: the sweep", "S10: an", "S11: a s", "S12", "S15")
"""Rules that hold at every moment, if the logs are read before the tables."""


def so_far(run: Run, rules: tuple[str, ...]) -> list[Verdict]:
    """Give those of the rules that are broken already, in the middle of a run."""
    verdicts = [v for v in auditor.judge(collect(run)) if v.rule.startswith(LIVE)]
    return [v for v in verdicts if v.violations and v.rule.startswith(rules)]


def collect(run: Run) -> evidence.Found:
    """Collect all evidence there is, the logs before the tables."""
    stage, load = run.stage, run.load
    stage.calls.refresh()
    logs = {
        "answered": list(load.answered),
        "unanswered": list(load.unanswered),
        "calls": list(stage.calls.rows),
        "deliveries": stage.deliveries(),
        "never_called": run.nemesis.tally.claimed_only,
    }
    clients = {
        "submitted": list(load.submitted),
        "stopped": list(load.stopped),
        "payloads_taken_twice": list(load.payloads_taken_twice),
        "forged": {sns_id: list(told) for sns_id, told in list(run.forger.told.items())},
        "decided": list(run.operator.decided),
        "habits": stage.habits(),
        "hurt": run.nemesis.harm.hurt,
        "poisoned": set(load.poisoned),
        "looks": run.witness.seen.looks,
        "idle": list(run.witness.seen.idle),
        "away": [*run.witness.seen.away, *run.nemesis.harm.cut],
        "locked": dict(run.witness.seen.locked),
    }
    with stage.snapshot() as sql:
        return evidence.Found(
            campaign=campaign.collect(sql, **logs), **clients, **evidence.tables(sql)
        )


def reach(run: Run, settled: str) -> Outcome:
    """Judge a run that came to its end."""
    asked, stage, load, nemesis = run.asked, run.stage, run.load, run.nemesis
    found = replace(
        collect(run),
        claimed=_claimed(stage),
        nobody_there=absence.of(stage, nemesis.harm, run.witness.seen),
        answers_lost=sum(
            times for (name, _), times in stage.proxy.by_client.items() if "drain" in name
        )
        + nemesis.harm.backends
        + nemesis.harm.blows["postmaster"] * len(stage.workers),
    )
    verdicts = [*auditor.judge(found), _secrets(stage), _calm(stage, settled)]
    verdicts.append(_healthy(stage, nemesis))
    others = Verdict("the operator and the forger met nothing they do not know")
    for fault in [*run.operator.faults, *run.forger.faults]:
        others.check(False, fault)
    verdicts.append(others)
    if asked.control:
        verdicts.append(_nothing_went_wrong(found, load))
    points = {} if asked.control else report.points(found, nemesis, load, stage)
    states = Counter(row["state"] for row in found.emails)
    attempts = Counter(row["state"] for row in found.attempts)
    second = sum(row["epoch"] > 0 for row in found.emails)
    facts: dict[str, object] = {
        "requests answered 2xx": len(load.answered) + len(load.submitted) + len(load.stopped),
        "requests repeated by the clients": load.retries,
        "emails by state": ", ".join(f"{n} {state}" for state, n in sorted(states.items())),
        "attempts by state": ", ".join(f"{n} {state}" for state, n in sorted(attempts.items())),
        "ambiguous; unknowns, rows of the killed, answers lost": end_rules.budget(found),
        "emails in a second epoch": second,
        "the latest end of a lease, excused time left out": _latest(found),
        "most connections of the product": f"{run.witness.seen.most} of {CONNECTIONS}",
        "event deliveries tried": len(found.campaign.deliveries),
        "backends terminated": nemesis.harm.backends,
    }
    return Outcome(title(asked), verdicts=verdicts, points=points, facts=facts)


def title(asked: Asked) -> str:
    """Name a run."""
    kind = "control" if asked.control else "chaos"
    return f"{kind}: {asked.emails} emails, seed {asked.seed}"


def _latest(found: evidence.Found) -> str:
    late, _, what = max(time_rules.lateness(found), default=(0.0, 0.0, ""))
    return f"{late:.1f} s after it" + (f" ({what})" if late > time_rules.SLACK else "")


def _claimed(stage: Stage) -> set[str]:
    workers = [p for p in stage.processes.programs if p.name.startswith("worker")]
    probed = {row["attempt_id"] for p in workers for row in p.records("hold.probed")}
    waves = [row["attempt_ids"].split() for p in workers for row in p.records("emails.claimed")]
    return probed.union(*waves)


def _calm(stage: Stage, settled: str) -> Verdict:
    calm = Verdict("L1: everything came to rest")
    calm.check(not settled, f"{settled}; states {stage.processes.states()}")
    return calm


def _healthy(stage: Stage, nemesis: Nemesis) -> Verdict:
    healthy = Verdict("L7: no process ended by itself, no deploy lost anything")
    for program in [*stage.living(), stage.sandbox]:
        healthy.check(program.running, program.tail())
    for words in [*nemesis.harm.deaths, *nemesis.harm.deploy_faults]:
        healthy.check(False, words)
    for program in nemesis.harm.deployed:
        lost = [*program.records("result_not_recorded"), *program.records("calls_abandoned")]
        healthy.check(not lost, f"{program.name}: {lost}")
    return healthy


def _secrets(stage: Stage) -> Verdict:
    """Addresses and secrets are in no log, no row of the broker, and no note about an error."""
    private = Verdict("S17: no address and no secret is in a log, the broker's rows, an error")
    private.looked_at += len(stage.processes.programs)
    stage.processes.canaries["an address"] = f"@{SIMULATOR_DOMAIN}"
    try:
        stage.processes.check_logs()
    except AssertionError as fault:
        private.check(False, str(fault)[:500])
    for query in _NOWHERE:
        for row in stage.processes.sql(query):
            private.check(not stage.processes.leaks(row["text"] or ""), row["text"])
    return private


def _nothing_went_wrong(found: evidence.Found, load: Load) -> Verdict:
    control = Verdict("control: no doubt, no duplicate, no retry")
    for email in found.emails:
        attempts = found.of_email[email["id"]]
        right = len(attempts) == (0 if email["state"] == "suppressed" else 1)
        control.check(
            right and email["state"] in {"submitted", "suppressed"},
            f"{email['id']} is {email['state']} after {len(attempts)} attempts",
        )
    for row in found.campaign.deliveries:
        # The webhook is subscribed before it is there.
        other = row["type"] != "Notification"
        control.check(other or (row["status"] == 200 and row["attempt"] == 1), f"{row}")
    control.check(load.retries == 0, f"the clients repeated {load.retries} requests")
    return control
