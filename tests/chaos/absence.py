"""When nobody was there who could end a lease: no clock, no worker, or the right to sweep stuck."""

from __future__ import annotations

import time
from datetime import datetime
from functools import reduce

from tests.chaos.harm import Harm
from tests.chaos.stage import SLOTS, Stage
from tests.chaos.witness import Seen, Span
from tests.journeys.programs import Program


def of(stage: Stage, harm: Harm, seen: Seen) -> list[Span]:
    """Give those times; they may overlap."""
    alone = reduce(_both, (_of_slot(stage, harm, slot) for slot in SLOTS))
    clock = _starts(stage.replaced["clock"], "clock.started")
    return [*alone, *clock, *harm.deployed_at, *seen.swept_by_nobody]


def _of_slot(stage: Stage, harm: Harm, slot: str) -> list[Span]:
    spans = _starts(stage.replaced[slot], "worker.started")
    for _, worker in stage.replaced[slot]:
        frozen = harm.frozen.get(worker.name, [])
        spans += [(span[0], span[1] if len(span) > 1 else time.time()) for span in frozen]
    return spans


def _starts(replaced: list[tuple[float, Program]], event: str) -> list[Span]:
    spans: list[Span] = []
    for number, (begun, program) in enumerate(replaced):
        later = replaced[number + 1 :]
        given_up = later[0][0] if later else time.time()
        record = next(iter(program.records(event)), None)
        started = datetime.fromisoformat(record["timestamp"]).timestamp() if record else given_up
        spans.append((begun, min(started, given_up)))
    return spans


def _both(some: list[Span], others: list[Span]) -> list[Span]:
    return [(max(a, c), min(b, d)) for a, b in some for c, d in others if max(a, c) < min(b, d)]
