"""How far the claims of one loop have come, so that none passes again what lies behind.

What lies behind is dead, held by somebody, or stopped by a hold, and may be a great deal: a claim that
begins at the oldest row would walk all of it each time. Every few seconds one does, and the frontier
goes back to whatever it finds there; so nothing waits longer than that for having been passed.
"""

import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from mail_service.store.claims import Claimed

LANES = 3
WHOLE_LOOK_SECONDS = 5.0
"""How often a claim begins at the oldest row."""

SLACK = timedelta(seconds=2)
"""How far behind the newest row claimed a claim begins: rows are committed later than they are due."""


class Frontier:
    """Not for more than one thread. ``clock`` gives monotonic seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._newest: list[datetime | None] = [None] * LANES
        self._whole_look_at = clock()

    def since(self) -> list[datetime | None]:
        """Give the due time at which the next claim begins in each lane; None: at the oldest row."""
        if self._clock() >= self._whole_look_at:
            return [None] * LANES
        return [None if newest is None else newest - SLACK for newest in self._newest]

    def advance(self, since: list[datetime | None], rows: Iterable[Claimed]) -> None:
        """Learn what a claim that began there has found; back as well as forth."""
        if since == [None] * LANES:
            self._whole_look_at = self._clock() + WHOLE_LOOK_SECONDS
        found: dict[int, datetime] = {}
        for row in rows:
            if row.was_due is not None:
                found[row.lane] = max(row.was_due, found.get(row.lane, row.was_due))
        for lane, newest in found.items():
            self._newest[lane] = newest
