"""How much goes wrong, by the size of the run, and in what order."""

from __future__ import annotations

import random
from dataclasses import dataclass

from tests.campaign.nemesis import WINDOWS
from tests.chaos.proxy import Faults

KEPT = 12
"""Shares that are kept for blows that missed their window and are tried again."""

KILLS = (*WINDOWS, "worker", "worker", "worker", "web", "web child", "clock")


@dataclass(frozen=True)
class Plan:
    """How many blows of each kind, and how far apart."""

    kills: int
    postmaster: int
    backends: int
    """Children of the postmaster that are killed."""
    purges: int
    deploys: int
    frozen: int
    frozen_for: float
    """Seconds at most."""
    stale: int
    truncates: int
    outages: int
    certificates: int
    windows: tuple[float, float]
    """Seconds for which all of SES is out."""
    apart: tuple[float, float]
    faults: Faults

    @classmethod
    def for_size(cls, emails: int) -> Plan:
        """Give the plan for so many emails."""
        small = emails < 1000
        share = 3.0 if small else 1.0
        return cls(
            kills=max(7, emails // 49),
            postmaster=max(1, emails // 3000),
            backends=max(1, emails // 3000),
            purges=max(1, emails // 900),
            deploys=1 if small else 2,
            frozen=0 if small else max(1, emails // 2500),  # the stale one is frozen, too
            frozen_for=8.0 if small else 24.0,
            stale=max(1, emails // 2500),
            truncates=max(1, emails // 900),
            outages=max(1, emails // 4000),
            certificates=1,
            windows=(1.0, 2.0) if small else (5, 12),
            apart=(0.1, 0.4) if small else (0.5, 2.0),
            faults=Faults(
                late=0.02,
                late_seconds=0.05,
                cut=0.001 * share,
                hole=0.0003 * share,
                hole_seconds=4 if small else 8,
                answer_lost=0.008 * share,
                commit_lost=0.004 * share,
            ),
        )

    @property
    def meals(self) -> int:
        """Into how many shares the load is cut: one for each blow, and more for those that aim."""
        deck = self.deck(random.Random(0))
        aimed = sum(kind in WINDOWS for kind in deck)
        return len(deck) + 2 * aimed + KEPT

    def deck(self, chance: random.Random) -> list[str]:
        """Give the blows in their order. Every kind of kill comes before any comes twice."""
        kills = [*dict.fromkeys(KILLS)]
        kills += chance.choices(KILLS, k=max(0, self.kills - len(kills)))
        others = {
            "postmaster": self.postmaster,
            "backend": self.backends,
            "purge": self.purges,
            "deploy": self.deploys,
            "frozen": self.frozen,
            "stale": self.stale,
            "truncate": self.truncates,
            "outage": self.outages,
            "throttling": self.outages,
            "paused": self.outages,
            "certificate": self.certificates,
        }
        deck = kills[: self.kills] + [kind for kind, n in others.items() for _ in range(n)]
        chance.shuffle(deck)
        return deck
