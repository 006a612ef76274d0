"""What goes wrong, in what order: a deck of blows, shuffled by the seed and dealt one by one.

Kills, also those aimed at the windows between two steps, are the crash campaign's; here are the others.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable

import psycopg

from tests.campaign.nemesis import WINDOWS
from tests.campaign.nemesis import Nemesis as Campaign
from tests.campaign.stage import moments
from tests.chaos.harm import Harm
from tests.chaos.people import Lines
from tests.chaos.plan import Plan
from tests.chaos.stage import LEASE, SLOTS, Stage
from tests.chaos.stale import Stale
from tests.chaos.world import IN_VAIN, SLOW
from tests.journeys.programs import Program, until

STOPS_WITHIN = 28.0
MEETS_WITHIN = 30.0
"""Seconds in which a window meets a call, if a hold or a backlog is before it."""

FEEDS = 2
"""Shares of work that an aimed blow is fed, for its victim to be busy."""

BESIDE = "a stale worker beside a second epoch"


class Nemesis(Campaign):
    """Deals the deck. ``feed`` gives the system work before each blow, ``ask`` one email of its own."""

    def __init__(
        self,
        stage: Stage,
        seed: int,
        plan: Plan,
        feed: Callable[[], None],
        ask: Callable[[str], str | None],
    ) -> None:
        super().__init__(stage, seed, feed)
        self._stale = Stale(stage, lambda: ask(SLOW), self._stop_in_call, self._thaw)
        self._at = stage
        self._ask = ask
        self._plan = plan
        self.deck = plan.deck(random.Random(f"deck {seed}"))
        self.harm = Harm()

    def begin(self) -> None:
        """Let the wire go wrong from now on."""
        self._at.proxy.faults = self._plan.faults

    def end(self) -> None:
        """Nothing more goes wrong; whoever is missing is started."""
        self._at.proxy.heal()
        self._at.knobs(outcome=None, sending_paused=False, hold_events=[], answer_delay_seconds=0)
        self._at.world(certificate_away=False)
        self._at.release()
        self.harm.deaths += self._at.revive()

    def deal(self, kind: str) -> None:
        """Strike once, and let some time pass."""
        self.harm.deaths += self._at.revive()
        before = {program.name for program in self._at.workers.values()}
        others: dict[str, Callable[[], None]] = {
            "clock": self._kill_clock,
            "postmaster": self._kill_postmaster,
            "backend": self._kill_backend,
            "purge": self._purge,
            "deploy": self._deploy,
            "frozen": self._freeze_past_the_lease,
            "stale": self._thaw_beside_a_second_epoch,
            "truncate": lambda: void(self._at.sql("TRUNCATE dramatiq.queue")),
            "outage": self._outage,
            "throttling": lambda: self._window("throttle", outcome="throttle"),
            "paused": lambda: self._window("paused", sending_paused=True),
            "certificate": self._certificate_away,
        }
        if kind in others:
            others[kind]()
        else:
            if kind in WINDOWS:
                self._feed_well()
            self.kill(kind)
            self._at.knobs(answer_delay_seconds=0)
        self.harm.blows[kind] += 1
        if kind != "deploy":
            for name in before - {program.name for program in self._at.workers.values()}:
                self.harm.hurts(name)
        time.sleep(self._chance.uniform(*self._plan.apart))

    def unmet(self) -> list[str]:
        """Name the aimed blows that have missed so far."""
        missed = [window for window in WINDOWS if not self.tally.windows[window]]
        return missed + ["stale"] * (not self.harm.blows[BESIDE])

    def _feed_well(self) -> None:
        for _ in range(FEEDS):
            self._feed()

    def _kill_clock(self) -> None:
        self._feed()
        self._at.clock.kill9()
        self._at.replace_clock()
        self.tally.kills["clock"] += 1

    def _kill_postmaster(self) -> None:
        self._feed()
        time.sleep(self._chance.uniform(0.1, 0.4))
        with self.harm.cuts():
            self._at.postgres.kill9()
            time.sleep(self._chance.uniform(0.2, 2))
            self._at.postgres.start()

    def _kill_backend(self) -> None:
        """Kill one child of the postmaster, which ends all the others and recovers."""
        self._feed()
        time.sleep(self._chance.uniform(0.1, 0.4))
        with self.harm.cuts():
            self._at.kill_backend(self._chance)
            time.sleep(0.2)
            until(self._at.answers, "the database has recovered", 60)

    def _purge(self) -> None:
        self._feed()
        time.sleep(self._chance.uniform(0.1, 0.4))
        with self.harm.cuts():
            self.harm.backends += self._at.purge()

    def _deploy(self) -> None:
        """Stop everything as a platform does, signal by signal to all, twice; nothing may be lost."""
        self._at.proxy.heal()
        self._feed()
        time.sleep(1.0)
        begun = time.time()
        leaving = self._at.living()
        self.harm.deployed += leaving
        for program in leaving:
            program.signal_group(signal.SIGTERM, times=2)
        for program in leaving:
            try:
                status = program.wait(STOPS_WITHIN)
            except AssertionError as late:
                self.harm.deploy_faults.append(str(late))
                program.kill9()
            else:
                # Before it has a handler the signal ends it, and there is nothing to lose yet.
                young = status == -signal.SIGTERM and not program.records(
                    f"{kind_of(program)}.started"
                )
                if status != 0 and not young:
                    self.harm.deploy_faults.append(f"ended with {status}: {program.tail(5)}")
        for slot in SLOTS:
            self._at.replace_worker(slot)
        self._at.replace_web()
        self._at.replace_clock()
        for program in [*self._at.workers.values(), self._at.clock]:
            program.wait_for(f"{kind_of(program)}.started", 60)
        self.harm.deployed_at.append((begun, time.time()))
        self.begin()

    def _freeze_past_the_lease(self) -> None:
        self._feed()
        self._at.knobs(answer_delay_seconds=0.5)
        worker = self._at.workers[self._chance.choice(SLOTS)]
        for _ in moments(3):
            if self._in_window(worker)["call"]:
                break
        self._freeze(worker)
        self.harm.hurts(worker.name)
        self._at.knobs(answer_delay_seconds=0)
        time.sleep(self._chance.uniform(LEASE + 1.5, self._plan.frozen_for))
        self._thaw(worker)
        self.tally.pauses += 1

    def _thaw_beside_a_second_epoch(self) -> None:
        self._feed()
        before = self._stale.frozen
        self.harm.blows[BESIDE] += self._stale.strike()
        self.tally.pauses += self._stale.frozen - before

    def _stop_in_call(self, worker: Program) -> None:
        self._freeze(worker)
        self.harm.hurts(worker.name)

    def _freeze(self, worker: Program) -> None:
        self.harm.freezes(worker.name)
        super()._freeze(worker)

    def _thaw(self, worker: Program) -> None:
        super()._thaw(worker)
        self.harm.thaws(worker.name)

    def _window(self, meets: str, **knobs: object) -> None:
        """Let every call end like this for some seconds, and until one has: else it was no window."""
        self._at.calls.refresh()
        before = len(self._at.calls.rows)
        self._at.knobs(**knobs)
        self._feed()
        self._ask("success")
        time.sleep(self._chance.uniform(*self._plan.windows))
        for _ in moments(MEETS_WITHIN, 0.1):
            self._at.calls.refresh()
            if any(row["behaviour"] == meets for row in self._at.calls.rows[before:]):
                break
        self._at.knobs(outcome=None, sending_paused=False)

    def _outage(self) -> None:
        outcome = self._chance.choice(["lost", "refuse503"])
        self._window(outcome, outcome=outcome)

    def _certificate_away(self) -> None:
        """No certificate to be had, while every cache of one is fresh from a restart."""
        asked_for = Lines(self._at.directory / IN_VAIN)
        asked_for.more()
        self._at.world(certificate_away=True)
        self._at.web.kill9()
        self._at.replace_web()
        self.tally.kills["web"] += 1
        self._feed()
        self._ask("success")
        for _ in moments(MEETS_WITHIN, 0.1):
            if found := len(asked_for.more()):
                self.harm.blows[IN_VAIN] += found
                break
        time.sleep(self._plan.windows[1])
        self.harm.blows[IN_VAIN] += len(asked_for.more())
        self._at.world(certificate_away=False)

    def _in_window(self, worker: Program) -> dict[str, list[str]]:
        try:
            return super()._in_window(worker)
        except psycopg.OperationalError:
            return {window: [] for window in WINDOWS}


def kind_of(program: Program) -> str:
    """Give the name that the Procfile has for it."""
    return program.name.partition("-")[0]


def void(_: object) -> None:
    """Give nothing."""
