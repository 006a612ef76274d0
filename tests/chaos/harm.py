"""What the blows did besides the kills, to whom and when."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.journeys.programs import Program

AFTERMATH = 2.0
"""Seconds that a worker has after it was let go on, to end what was under way."""


@dataclass
class Harm:
    """What the blows did besides the kills, to whom and when."""

    blows: Counter[str] = field(default_factory=Counter)
    hurt: dict[str, list[float]] = field(default_factory=dict)
    """When each worker was killed or stopped: only what it did then may be in doubt without a reason."""
    frozen: dict[str, list[list[float]]] = field(default_factory=dict)
    """From when to when each worker was stopped; without an end while it is."""
    cut: list[tuple[float, float]] = field(default_factory=list)
    """When all connections of the product to the database were gone at once."""
    deployed_at: list[tuple[float, float]] = field(default_factory=list)
    """When nobody was there, because everybody was being stopped or started."""
    deaths: list[str] = field(default_factory=list)
    """Last words of processes that ended by themselves."""
    deploy_faults: list[str] = field(default_factory=list)
    deployed: list[Program] = field(default_factory=list)
    backends: int = 0

    def hurts(self, worker: str) -> None:
        """Note that a worker was killed or stopped just now."""
        self.hurt.setdefault(worker, []).append(time.time())

    def freezes(self, worker: str) -> None:
        """Note that a worker does nothing from now on."""
        self.frozen.setdefault(worker, []).append([time.time()])

    def thaws(self, worker: str) -> None:
        """Note that it goes on."""
        self.frozen[worker][-1].append(time.time())

    def is_frozen(self, worker: str) -> bool:
        """Whether it is stopped, or was a moment ago."""
        now = time.time()
        return any(
            len(span) == 1 or now < span[1] + AFTERMATH for span in self.frozen.get(worker, ())
        )

    @contextmanager
    def cuts(self) -> Generator[None]:
        """Note that meanwhile all connections are lost."""
        begun = time.time()
        yield
        self.cut.append((begun, time.time()))
