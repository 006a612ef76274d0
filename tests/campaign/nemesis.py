"""Kills: at random, and aimed at the three windows in which a crash can fall between two steps.

A worker is frozen (SIGSTOP), looked at from outside, and killed, so that what a window was hit by is
known and not guessed: nothing of it moves between the look and the kill.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil
import psycopg

from tests.campaign.stage import SLOTS, Stage, moments
from tests.journeys.programs import Program

WINDOWS = ("claim", "call", "finalise")
ENOUGH = 3
AIMS_FOR = 8.0
"""Seconds after which an aimed kill is made anyway."""

ENDS = {"answered", "reset", "client_gone"}


@dataclass
class Tally:
    """What was killed, and what it was doing."""

    kills: Counter[str] = field(default_factory=Counter)
    windows: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    claimed_only: set[str] = field(default_factory=set)
    """Tags of attempts that were killed before their call: they must never arrive."""
    pauses: int = 0

    @property
    def total(self) -> int:
        """All kills."""
        return sum(self.kills.values())

    @property
    def enough(self) -> bool:
        """Whether each window was hit often enough."""
        return all(self.windows[window] >= ENOUGH for window in WINDOWS)


class Nemesis:
    """Makes one kill at a time; whoever was killed is started again at once.

    ``feed`` gives the system work; it is called when the victim is up, so that it dies at work.
    """

    def __init__(self, stage: Stage, seed: int, feed: Callable[[], None]) -> None:
        self._stage = stage
        self._feed = feed
        self._chance = random.Random(f"nemesis {seed}")
        self.tally = Tally()

    def strike(self) -> str:
        """Make the next kill; gives what it was."""
        wanted = [w for w in WINDOWS if self.tally.windows[w] < ENOUGH]
        kind = (
            min(wanted, key=lambda w: self.tally.windows[w] + self.tally.missed[w])
            if wanted
            else self._chance.choice([*WINDOWS, "worker", "worker", "web", "web child"])
        )
        return self.kill(kind)

    def kill(self, kind: str) -> str:
        """Make a kill of one kind."""
        if kind == "web":
            self._feed()
            time.sleep(self._chance.uniform(0, 0.3))
            self._stage.web.kill9()
            self._stage.replace_web()
        elif kind == "web child":
            self._feed()
            children = psutil.Process(self._stage.web.pid).children()
            if children:
                self._chance.choice(children).kill()
        else:
            self._kill_worker(kind)
        self.tally.kills["web" if kind.startswith("web") else "worker"] += 1
        return kind

    def pause(self, seconds: float) -> None:
        """Freeze a worker for longer than its leases, then let it go on with what it believes."""
        worker = self._stage.workers[self._chance.choice(SLOTS)]
        os.kill(worker.pid, signal.SIGSTOP)
        time.sleep(seconds)
        os.kill(worker.pid, signal.SIGCONT)
        self.tally.pauses += 1

    def _kill_worker(self, kind: str) -> None:
        slot = self._chance.choice(SLOTS)
        worker = self._stage.workers[slot]
        worker.wait_for("worker.started", 30)
        self._feed()
        aims: dict[str, Callable[[Program], bool]] = {
            "claim": self._aim_at_claim,
            "call": self._aim_at_call,
            "finalise": self._aim_at_finalise,
        }
        if kind in aims:
            if not aims[kind](worker):
                self.tally.missed[kind] += 1
                self._freeze(worker)
                self._count(worker)
        else:
            time.sleep(self._chance.uniform(0, 0.5))
            self._freeze(worker)
            self._count(worker)
        worker.kill9()
        self._stage.replace_worker(slot)

    def _aim_at_claim(self, worker: Program) -> bool:
        """Freeze the worker when an attempt of it is committed and its call has not begun."""
        self._stage.knobs(answer_delay_seconds=0.4)
        for _ in moments(AIMS_FOR):
            if self._in_window(worker)["claim"]:
                self._freeze(worker)
                time.sleep(0.03)  # what it had written to the socket arrives
                if self._in_window(worker)["claim"]:
                    self._count(worker)
                    return True
                self._thaw(worker)
        return False

    def _aim_at_call(self, worker: Program) -> bool:
        """Freeze the worker while a call of it has arrived and is not answered."""
        self._stage.knobs(answer_delay_seconds=0.8)
        for _ in moments(AIMS_FOR):
            if self._in_window(worker)["call"]:
                self._freeze(worker)
                if self._in_window(worker)["call"]:
                    self._count(worker)
                    return True
                self._thaw(worker)
        return False

    def _aim_at_finalise(self, worker: Program) -> bool:
        """Freeze the worker when a call of it was answered and the answer is not recorded.

        Its rows are locked from outside while the answer is on its way, so it must hold the result.
        """
        self._stage.knobs(answer_delay_seconds=0.5)
        deadline = time.monotonic() + AIMS_FOR
        while time.monotonic() < deadline:
            emails = self._in_window(worker)["call"]
            if not emails:
                time.sleep(0.005)
                continue
            with psycopg.connect(self._stage.processes.url, application_name="tests") as holder:
                holder.execute(
                    "SELECT FROM mail_service.email_outbox WHERE id = ANY(%s) AND state = 'sending'"
                    " ORDER BY id FOR UPDATE SKIP LOCKED",
                    (emails,),
                )
                for _ in moments(1.2):
                    if self._in_window(worker)["finalise"]:
                        self._freeze(worker)
                        if self._in_window(worker)["finalise"]:
                            self._count(worker)
                            # Killed before the lock goes, or it would record in between.
                            worker.kill9()
                            return True
                        self._thaw(worker)
        return False

    def _in_window(self, worker: Program) -> dict[str, list[str]]:
        """Sort the worker's attempts that are recorded as started by what SES saw: gives emails."""
        attempts = self._stage.claimed_by(worker)
        self._stage.calls.refresh()
        found: dict[str, list[str]] = {window: [] for window in WINDOWS}
        for tag, (state, email) in attempts.items():
            if state != "started":
                continue
            seen = self._stage.calls.by_tag.get(tag, [])
            if not seen:
                found["claim"].append(email)
            elif "answered" in seen:
                found["finalise"].append(email)
            elif not ENDS & set(seen):
                found["call"].append(email)
        return found

    def _count(self, worker: Program) -> None:
        """Count the windows that the frozen worker is in."""
        time.sleep(0.02)
        window = self._in_window(worker)
        for name in WINDOWS:
            self.tally.windows[name] += bool(window[name])
        for tag, (state, _) in self._stage.claimed_by(worker).items():
            if state == "started" and tag not in self._stage.calls.by_tag:
                self.tally.claimed_only.add(tag)

    def _freeze(self, worker: Program) -> None:
        os.kill(worker.pid, signal.SIGSTOP)
        process = psutil.Process(worker.pid)
        for _ in moments(2, 0.001):
            if process.status() == psutil.STATUS_STOPPED:
                return

    def _thaw(self, worker: Program) -> None:
        os.kill(worker.pid, signal.SIGCONT)
