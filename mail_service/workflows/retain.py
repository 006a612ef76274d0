"""Personal data is kept no longer than needed, and nothing that only grows is kept for ever.

What goes when is said in docs/operating.md, "What is kept how long". Run once an hour by the sweep.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Protocol
from uuid import UUID

from mail_service.runtime import Runtime
from mail_service.store import housekeeping, retention
from mail_service.store.database import Tx
from mail_service.store.retention import Place, Step
from mail_service.workflows import journal

BATCH = 1000
MAX_BATCHES = 2000
HOUR = 3600.0
_RETENTION = "retention"
_BEFORE_ALL = datetime(1970, 1, 1, tzinfo=UTC)
_NO_ID = UUID(int=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retained:
    """How much was past its days."""

    contents: int
    addresses: int
    payloads: int
    strangers: int
    counters: int


class _Erase(Protocol):
    def __call__(self, tx: Tx, *, older_than_days: int, after: Place, limit: int) -> Step: ...


def hourly(rt: Runtime) -> None:
    """Run the retention once an hour, whoever comes first."""
    with rt.db.transaction() as tx:
        if not housekeeping.take_turn(tx, _RETENTION, HOUR):
            return
    done = asdict(run(rt))
    if any(done.values()):
        journal.stage("retention.done", **done)


def run(rt: Runtime) -> Retained:
    """Delete whatever is past its days; gives how much that was."""
    days = rt.settings
    # An email whose addresses are gone can't be sent again, so its content goes with them.
    content_days = min(days.retain_content_days, days.retain_address_days)
    return Retained(
        contents=_walk(rt, "contents", content_days, retention.erase_contents),
        addresses=_walk(rt, "addresses", days.retain_address_days, retention.erase_addresses),
        strangers=_in_batches(
            rt,
            lambda tx: retention.forget_strangers(
                tx, older_than_days=days.retain_unmatched_days, limit=BATCH
            ),
        ),
        payloads=_walk(rt, "payloads", days.retain_event_days, retention.erase_payloads)
        + _once(rt, retention.erase_late_payloads),
        counters=_once(rt, lambda tx: retention.forget_counters(tx) + retention.forget_syncs(tx)),
    )


def _walk(rt: Runtime, what: str, days: int, erase: _Erase) -> int:
    """Go on along the index from where the last walk ended, or from what somebody held in it."""
    name = f"{_RETENTION}: {what}"
    with rt.db.transaction() as tx:
        place = (retention.reached(tx, name) or _BEFORE_ALL, _NO_ID)
    total = 0
    left: datetime | None = None
    for _ in range(MAX_BATCHES):
        done = rt.db.transact(partial(_step, erase, name, days, place, left))
        total += done.changed
        left = left or done.left
        if done.at is None or done.id is None:
            break
        place = (done.at, done.id)
    return total


def _step(erase: _Erase, name: str, days: int, after: Place, left: datetime | None, tx: Tx) -> Step:
    """Take one step, and record where the next walk begins: at the first that was left, if any was."""
    done = erase(tx, older_than_days=days, after=after, limit=BATCH)
    again = left or done.left or done.at
    if again is not None:
        retention.reach(tx, name, again)
    return done


def _in_batches(rt: Runtime, work: Callable[[Tx], int]) -> int:
    total = 0
    for _ in range(MAX_BATCHES):
        done = _once(rt, work)
        total += done
        if done < BATCH:
            break
    return total


def _once(rt: Runtime, work: Callable[[Tx], int]) -> int:
    return rt.db.transact(work)
