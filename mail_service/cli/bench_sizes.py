"""How much is measured, as data: the sizes of a bench, whole and quick."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """What a run measures with. Rates are taken between the 10 % and the 90 % mark."""

    repetitions: int = 3
    processes: int = 2
    slots: int = 16
    emails: int = 4000
    """Backlog of one pipeline run."""
    signups: int = 1000
    gap_seconds: float = 0.05
    """Mean of the random gap between two sign-ups to an idle system."""
    lost: int = 60
    """Sign-ups of which no worker is told."""
    requests: int = 8000
    """Of one run of a web route."""
    connections: int = 16
    pending: int = 5_000_000
    finished: int = 10_000_000
    waves: int = 40
    """Claims of 32 in one run, at each depth."""
    churn_seconds: float = 60
    idle_seconds: float = 20


QUICK = Sizes(
    repetitions=1,
    emails=600,
    signups=100,
    lost=10,
    requests=600,
    pending=100_000,
    finished=100_000,
    waves=20,
    churn_seconds=3,
    idle_seconds=6,
)
"""Enough to see that it works, too little to quote."""
