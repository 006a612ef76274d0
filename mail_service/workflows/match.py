"""An event finds its attempt, by tag or saved MessageId alone, and what it says is merged.

Called wherever the two halves may have met: at ingest, at finalise, and by the sweep. All of it in
the caller's transaction, under the email's row lock, so that each sees what the others wrote.
"""

from collections.abc import Sequence
from uuid import UUID

from mail_service.domain import sending
from mail_service.domain.events import EventKind, EventStatus
from mail_service.domain.facts import KnownFact, merge
from mail_service.domain.states import Attempt
from mail_service.domain.suppression import SuppressionReason, reason_in
from mail_service.errors import Impossible
from mail_service.runtime import Runtime
from mail_service.store import attempts, events, outbox, recipients, suppressions
from mail_service.store.attempts import Finding
from mail_service.store.database import Tx
from mail_service.store.events import StoredEvent
from mail_service.store.outbox import Step
from mail_service.store.recipients import Called
from mail_service.workflows import journal


def match(rt: Runtime, tx: Tx, event: StoredEvent, found: Attempt | None = None) -> EventStatus:
    """Attach an event to its attempt if one is known, and let it have its effect; gives its status.

    ``found`` is what :func:`attempt_of` gave a moment ago; where that was nothing, it is looked for again.
    """
    found = found or attempt_of(tx, event)
    if found is None:
        return event.status
    email = outbox.lock(tx, found.email_id)
    if email is None:
        raise Impossible("an attempt's email is gone")
    attempt = attempts.of(tx, [found.id])[found.id]
    if _disagree(tx, event, attempt):
        return _quarantine(tx, event, attempt)
    settlement = sending.prove(email, attempt, event.provider_message_id)
    attempts.learn(
        tx,
        [
            Finding(
                attempt_id=attempt.id,
                state=settlement.attempt,
                provider_message_id=settlement.provider_message_id,
                decision=settlement.decision,
                resolved_by="event",
            )
        ],
    )
    if settlement.move is not None:
        outbox.move(tx, [Step(email=email, move=settlement.move, attempt_id=attempt.id)], "event")
    _merge_facts(rt, tx, event, attempt)
    events.settle(tx, event.id, EventStatus.MATCHED, attempt.id)
    if attempt.provider_message_id is None and settlement.provider_message_id is not None:
        match_waiting(rt, tx, [settlement.provider_message_id])
    if settlement.alarm is not None:
        journal.alarm_once(tx, settlement.alarm, email_id=email.id, attempt_id=attempt.id)
    journal.stage_once(
        tx,
        "event.matched",
        event_id=event.id,
        kind=event.kind,
        email_id=email.id,
        attempt_id=attempt.id,
        provider_message_id=event.provider_message_id,
        decision=settlement.decision if settlement.move is not None else None,
    )
    return EventStatus.MATCHED


def merge_again(rt: Runtime, tx: Tx, event: StoredEvent, attempt_id: UUID) -> None:
    """Merge what a matched event says, read anew, into the recipients of the call it stands at."""
    attempt = attempts.of(tx, [attempt_id])[attempt_id]
    if outbox.lock(tx, attempt.email_id) is None:
        raise Impossible("an attempt's email is gone")
    _merge_facts(rt, tx, event, attempt)


def match_waiting(rt: Runtime, tx: Tx, message_ids: Sequence[str]) -> None:
    """Match the stored events that waited for these MessageIds, now that they are saved."""
    for event in events.waiting_for(tx, message_ids=message_ids):
        match(rt, tx, event)


def attempt_of(tx: Tx, event: StoredEvent) -> Attempt | None:
    """Give the call of ours that an event is about, by its tag or its MessageId, if one is known."""
    if event.kind is EventKind.RECEIVED:
        return None  # inbound mail is never about a call of ours, whatever id it bears
    if event.request_tag is not None:
        tagged = attempts.by_tag(tx, event.request_tag)
        if tagged is not None:
            return tagged
    if event.provider_message_id is not None:
        return attempts.by_message_id(tx, event.provider_message_id)
    return None


def _disagree(tx: Tx, event: StoredEvent, attempt: Attempt) -> bool:
    """Whether tag and MessageId of an event speak of two calls (S14)."""
    if event.request_tag is not None and event.request_tag != str(attempt.id):
        return True
    if event.provider_message_id is None:
        return False
    if attempt.provider_message_id is not None:
        return attempt.provider_message_id != event.provider_message_id
    return attempts.by_message_id(tx, event.provider_message_id) is not None


def _quarantine(tx: Tx, event: StoredEvent, attempt: Attempt) -> EventStatus:
    events.settle(tx, event.id, EventStatus.QUARANTINED, None)
    journal.alarm_once(tx, "event_quarantined", event_id=event.id, attempt_id=attempt.id)
    return EventStatus.QUARANTINED


def _merge_facts(rt: Runtime, tx: Tx, event: StoredEvent, attempt: Attempt) -> None:
    """Merge what the event says into the recipients of its call, and into nobody else."""
    facts = event.known_facts()
    if not facts:
        return
    called = recipients.in_call(tx, attempt.id)
    stops: dict[bytes, tuple[SuppressionReason, KnownFact, Called]] = {}
    for recipient in called:
        mine = [f for f in facts if f.address_hash in {None, recipient.address_hash}]
        merged = recipient.facts
        for fact in mine:
            merged = merge(merged, fact)
            if fact.type == "auth-failure":
                # No person's wish, but somebody may be forging our domain, or our DNS is broken.
                journal.alarm_once(tx, "authentication_report", attempt_id=attempt.id)
            reason = reason_in(fact)
            if reason is None:
                continue
            standing = stops.get(recipient.address_hash)
            if standing is None or _stronger(reason, standing[0]):
                stops[recipient.address_hash] = (reason, fact, recipient)
        if merged != recipient.facts:
            recipients.save_facts(tx, recipient.id, merged)
    # One order for everybody, so that two events about the same mailboxes can't block each other.
    for address_hash in sorted(stops):
        reason, fact, recipient = stops[address_hash]
        suppressions.suppress(
            tx,
            new_id=rt.new_id(),
            address_hash=address_hash,
            address=recipient.address,
            reason=reason,
            source="event",
            evidence_at=fact.at,
        )


def _stronger(reason: SuppressionReason, than: SuppressionReason) -> bool:
    order = list(SuppressionReason)
    return order.index(reason) > order.index(than)
