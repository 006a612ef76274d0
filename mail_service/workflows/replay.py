"""Stored events are read again with today's reader, and matched with what is known today.

For after a release that reads more than the one before, and for events whose half of the story came
late. Merging is idempotent, so a second run changes nothing. Quarantined events are left to a person.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from mail_service.domain.events import EventStatus
from mail_service.errors import Impossible, InvalidFields
from mail_service.runtime import Runtime
from mail_service.store import events, rereading
from mail_service.store.database import Tx
from mail_service.store.events import StoredEvent
from mail_service.store.rereading import Kept
from mail_service.workflows import journal
from mail_service.workflows.match import have_effect, match
from mail_service.workflows.understand import named, understand

BATCH = 100
USUAL = (EventStatus.UNPARSEABLE, EventStatus.UNMATCHED, EventStatus.FOREIGN)
"""What is read again unless something else is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """How far a replay is. ``became`` counts events that are understood otherwise now, by how.

    ``quarantined`` says how many wait for a person; a replay does not touch them.
    """

    total: int
    read: int
    became: Mapping[str, int]
    quarantined: int


def replay(
    rt: Runtime,
    statuses: Sequence[EventStatus] = USUAL,
    *,
    tell: Callable[[Replayed], None] = lambda so_far: None,
) -> Replayed:
    """Read every event of these statuses again that came before now. Raises InvalidFields.

    Of an event whose payload is gone the stored facts are used. Safe to end and to repeat.
    """
    if EventStatus.QUARANTINED in statuses:
        raise InvalidFields({"status": "expected another one: quarantined events are not forced"})
    with rt.db.transaction() as tx:
        until = tx.now
        total = sum(rereading.count(tx, status, until=until) for status in statuses)
        quarantined = rereading.count(tx, EventStatus.QUARANTINED, until=until)
    so_far = Replayed(total=total, read=0, became={}, quarantined=quarantined)
    for status in statuses:
        place: tuple[datetime, UUID] | None = None
        while batch := rt.db.transact(lambda tx, s=status, p=place: _batch(rt, tx, s, p, until)):
            place = batch[-1].place
            so_far = replace(
                so_far,
                read=so_far.read + len(batch),
                became=Counter(so_far.became) + Counter(one.became for one in batch if one.became),
            )
            tell(so_far)
    journal.stage("replay.done", read=so_far.read, changed=sum(so_far.became.values()))
    return so_far


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    place: tuple[datetime, UUID]
    became: str | None


def _batch(
    rt: Runtime,
    tx: Tx,
    status: EventStatus,
    after: tuple[datetime, UUID] | None,
    until: datetime,
) -> list[_Read]:
    kept = rereading.to_read_again(tx, status, after=after, until=until, limit=BATCH)
    rereading.forget(tx, {one.id: named(rt, one.payload, ()) for one in kept if one.payload})
    return [_Read(place=(one.received_at, one.id), became=_again(rt, tx, one)) for one in kept]


def _again(rt: Runtime, tx: Tx, kept: Kept) -> str | None:
    """Read one locked event again and let it have its effect; gives what it became, None if nothing."""
    event, occurred_at = _read(rt, kept)
    read_otherwise = (event, occurred_at) != (_as_stored(kept), kept.occurred_at)
    if read_otherwise:
        rereading.rewrite(tx, event, occurred_at)
    if kept.status is EventStatus.MATCHED:
        if kept.attempt_id is None:
            raise Impossible("a matched event without an attempt")
        have_effect(rt, tx, event, kept.attempt_id)
        return "read_otherwise" if read_otherwise else None
    status = event.status
    if status in {EventStatus.UNMATCHED, EventStatus.FOREIGN}:
        status = match(rt, tx, event)
    if status is not kept.status:
        return status.value
    return "read_otherwise" if read_otherwise else None


def _read(rt: Runtime, kept: Kept) -> tuple[StoredEvent, datetime]:
    """Give the event as today's reader sees it. What it can't read any more stays as it was read."""
    before = _as_stored(kept)
    if kept.payload is None:
        return before, kept.occurred_at
    # Where the text gave no time, the one that was stored is SNS's own.
    now = understand(rt, kept.payload, at=kept.occurred_at)
    if now.status is EventStatus.UNPARSEABLE:
        return before, kept.occurred_at
    facts = events.written(now.facts)
    if kept.status is EventStatus.MATCHED:
        # Whose call it is about was settled; what it says of it may be understood better.
        return replace(before, kind=now.kind, facts=facts), now.occurred_at
    given_up = kept.status is EventStatus.FOREIGN and now.status is EventStatus.UNMATCHED
    event = StoredEvent(
        id=kept.id,
        kind=now.kind,
        status=EventStatus.FOREIGN if given_up else now.status,
        provider_message_id=now.provider_message_id,
        request_tag=now.request_tag,
        facts=facts,
        received_at=kept.received_at,
    )
    return event, now.occurred_at


def _as_stored(kept: Kept) -> StoredEvent:
    return StoredEvent(
        id=kept.id,
        kind=kept.kind,
        status=kept.status,
        provider_message_id=kept.provider_message_id,
        request_tag=kept.request_tag,
        facts=kept.facts,
        received_at=kept.received_at,
    )
