"""An event finds its attempt, by tag or saved MessageId alone, and what it says is merged.

Called wherever the two halves may have met: at ingest, at finalise, and by the sweep, in the caller's
transaction. What an event proves about its call is written under the email's row lock, so that each
sees what the others wrote. One that proves nothing new needs no lock of the email, and an email that
somebody holds is never waited for (docs/decisions/0014).
"""

from collections.abc import Sequence
from uuid import UUID

from mail_service.domain import sending
from mail_service.domain.events import EventKind, EventStatus
from mail_service.domain.facts import KnownFact, RecipientFacts, merge
from mail_service.domain.sending import Settlement
from mail_service.domain.states import AttemptState, Email, EmailState
from mail_service.domain.suppression import SuppressionReason, reason_in
from mail_service.errors import Impossible
from mail_service.runtime import Runtime
from mail_service.store import (
    attempts,
    events,
    matching,
    outbox,
    recipients,
    ses_list,
    suppressions,
    waiting,
)
from mail_service.store.attempts import Finding
from mail_service.store.database import Tx
from mail_service.store.events import NewEvent, StoredEvent
from mail_service.store.matching import Known
from mail_service.store.outbox import Step
from mail_service.store.recipients import Called
from mail_service.workflows import journal

_ON_THEIR_LIST = frozenset({"OnAccountSuppressionList", "Suppressed"})
"""Sub-types by which SES says that its own list stopped the mail."""


def match(rt: Runtime, tx: Tx, event: StoredEvent, found: Known | None = None) -> EventStatus:
    """Attach a stored event to its attempt if one is known, and let it have its effect; gives its status.

    Where somebody holds the email's row, the event stays as it is and is matched another time.
    ``found`` is what :func:`call_of` gave a moment ago; where that was nothing, it is looked for again.
    """
    known = found or call_of(tx, event)
    if known is None:
        return event.status
    settlement = None
    if not stands(event, known):
        email = outbox.lock_free(tx, [known.email_id]).get(known.email_id)
        if email is None:
            return event.status
        known = call_of(tx, event)  # again, now that nobody else can change it
        if known is None:
            raise Impossible("an attempt is gone")
        if _disagree(event, known):
            return _quarantine(tx, event, known)
        settlement = _prove(tx, event, known, email)
    events.settle(tx, event.id, EventStatus.MATCHED, known.id)
    have_effect(rt, tx, event, known.id)
    saved = settlement.provider_message_id if settlement is not None else None
    if saved is not None and saved != known.provider_message_id:
        match_waiting(rt, tx, [saved])
    journal.stage_once(
        tx,
        "event.matched",
        event_id=event.id,
        kind=event.kind,
        email_id=known.email_id,
        attempt_id=known.id,
        provider_message_id=event.provider_message_id,
        decision=settlement.decision if settlement is not None and settlement.move else None,
    )
    return EventStatus.MATCHED


def match_waiting(rt: Runtime, tx: Tx, message_ids: Sequence[str]) -> None:
    """Match the stored events that waited for these MessageIds, now that they are saved."""
    for event in waiting.waiting_for(tx, message_ids=message_ids):
        match(rt, tx, event)


def call_of(tx: Tx, event: StoredEvent | NewEvent) -> Known | None:
    """Give the call of ours that an event is about, by its tag or its MessageId, if one is known."""
    if event.kind is EventKind.RECEIVED:
        return None  # inbound mail is never about a call of ours, whatever id it bears
    return matching.find(
        tx, request_tag=event.request_tag, provider_message_id=event.provider_message_id
    )


def stands(event: StoredEvent | NewEvent, known: Known) -> bool:
    """Say whether an event proves nothing about its call that isn't written.

    This may be asked without a lock, because it can't become untrue: an accepted attempt and its
    MessageId stay, and an email with one goes nowhere but to ``submitted``.
    """
    return (
        known.state is AttemptState.ACCEPTED
        and known.email_state in {EmailState.SENDING, EmailState.SUBMITTED}
        and event.request_tag in {None, str(known.id)}
        and event.provider_message_id in {None, known.provider_message_id}
    )


def have_effect(rt: Runtime, tx: Tx, event: StoredEvent, attempt_id: UUID) -> None:
    """Merge what a matched event says into the recipients of its call, and into nobody else."""
    facts = event.known_facts()
    if not facts:
        return
    changed: dict[UUID, RecipientFacts] = {}
    stops: dict[bytes, tuple[SuppressionReason, KnownFact, Called]] = {}
    called = recipients.in_call(tx, attempt_id)
    for recipient in called:
        merged = recipient.facts
        for fact in facts:
            if fact.address_hash not in {None, recipient.address_hash}:
                continue
            merged = merge(merged, fact)
            if fact.type == "auth-failure":
                # No person's wish, but somebody may be forging our domain, or our DNS is broken.
                journal.alarm_once(tx, "authentication_report", attempt_id=attempt_id)
            reason = reason_in(fact)
            if reason is None:
                continue
            standing = stops.get(recipient.address_hash)
            if standing is None or _stronger(reason, standing[0]):
                stops[recipient.address_hash] = (reason, fact, recipient)
        if merged != recipient.facts:
            changed[recipient.id] = merged
    recipients.save_facts(tx, changed)
    # One order for everybody, so that two events about the same mailboxes can't block each other.
    for address_hash in sorted(stops):
        reason, fact, recipient = stops[address_hash]
        by_their_list = fact.subtype in _ON_THEIR_LIST
        suppressions.suppress(
            tx,
            new_id=rt.new_id(),
            address_hash=address_hash,
            address=recipient.address,
            reason=reason,
            # What only SES's list knew is counted as a difference between the two lists.
            source=ses_list.SOURCE if by_their_list else "event",
            by_their_list=by_their_list,
            evidence_at=event.evidence_at(fact),
        )


def _disagree(event: StoredEvent, known: Known) -> bool:
    """Whether tag and MessageId of an event speak of two calls (S14)."""
    if event.request_tag is not None and event.request_tag != str(known.id):
        return True
    if event.provider_message_id is None:
        return False
    if known.provider_message_id is not None:
        return known.provider_message_id != event.provider_message_id
    return known.holder_id is not None


def _quarantine(tx: Tx, event: StoredEvent, known: Known) -> EventStatus:
    events.settle(tx, event.id, EventStatus.QUARANTINED, None)
    journal.alarm_once(tx, "event_quarantined", event_id=event.id, attempt_id=known.id)
    return EventStatus.QUARANTINED


def _prove(tx: Tx, event: StoredEvent, known: Known, email: Email) -> Settlement:
    """Write what an event proves about its call and its locked email."""
    settlement = sending.prove(email, known.attempt, event.provider_message_id)
    finding = Finding(
        attempt_id=known.id,
        state=settlement.attempt,
        provider_message_id=settlement.provider_message_id,
        decision=settlement.decision,
        resolved_by="event",
    )
    attempts.learn(tx, [finding])
    if settlement.move is not None:
        outbox.move(tx, [Step(email=email, move=settlement.move, attempt_id=known.id)], "event")
    if settlement.alarm is not None:
        journal.alarm_once(tx, settlement.alarm, email_id=email.id, attempt_id=known.id)
    return settlement


def _stronger(reason: SuppressionReason, than: SuppressionReason) -> bool:
    order = list(SuppressionReason)
    return order.index(reason) > order.index(than)
