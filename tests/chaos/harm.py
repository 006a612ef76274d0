"""What the blows did besides the kills, and to whom."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from tests.journeys.programs import Program


@dataclass
class Harm:
    """What the blows did besides the kills, and to whom."""

    blows: Counter[str] = field(default_factory=Counter)
    hurt: dict[str, list[float]] = field(default_factory=dict)
    """When each worker was killed or stopped: only what it did then may be in doubt without a reason."""
    deaths: list[str] = field(default_factory=list)
    """Last words of processes that ended by themselves."""
    deploy_faults: list[str] = field(default_factory=list)
    deployed: list[Program] = field(default_factory=list)
    backends: int = 0

    def hurts(self, worker: str) -> None:
        """Note that a worker was killed or stopped just now."""
        self.hurt.setdefault(worker, []).append(time.time())
