"""The recipient's side: facts that are merged, never undone, so that order and repetition don't matter.

Each fact keeps its earliest time. Bounces keep the strongest type with that type's earliest time;
complaints keep a person's complaint over a report about authentication or a "not spam". At equal
rank and time the smaller text wins, so that any order of the same events gives the same row.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from mail_service.domain.events import FactKind


class RecipientStatus(StrEnum):
    """What a recipient's facts come to, for display. Derived, never stored."""

    WAITING = "waiting"
    SUBMITTED = "submitted"
    DELAYED = "delayed"
    DELIVERED = "delivered"
    BOUNCED = "bounced"
    COMPLAINED = "complained"
    REJECTED = "rejected"
    SUPPRESSED = "suppressed"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownFact:
    """A fact as it is stored: its recipient as a keyed hash (None: all of the call), its time filled in."""

    kind: FactKind
    address_hash: bytes | None
    at: datetime
    type: str | None = None
    subtype: str | None = None
    action: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipientFacts:
    """All that is known of one recipient of one email."""

    delivered_at: datetime | None = None
    bounced_at: datetime | None = None
    bounce_type: str | None = None
    bounce_subtype: str | None = None
    complained_at: datetime | None = None
    complaint_type: str | None = None
    complaint_subtype: str | None = None
    delayed_at: datetime | None = None
    rejected_at: datetime | None = None


NOT_A_PERSON = frozenset({"not-spam", "auth-failure"})
"""Complaint feedback types that are no person's wish to get no more mail (SNS notification contents)."""


def is_permanent(bounce_type: str | None) -> bool:
    """Whether SES says that this address will never take mail."""
    return bounce_type == "Permanent"


def is_personal(complaint_type: str | None) -> bool:
    """Whether a complaint is a person's. An absent type is: SES leaves it out for many providers."""
    return complaint_type not in NOT_A_PERSON


def _bounce_rank(bounce_type: str | None) -> int:
    # Types that we don't know rank with Undetermined.
    return {"Permanent": 0, "Transient": 2}.get(bounce_type or "", 1)


def merge(known: RecipientFacts, fact: KnownFact) -> RecipientFacts:
    """Add one fact. Commutative, associative and idempotent over any set of facts."""
    match fact.kind:
        case FactKind.DELIVERED:
            return replace(known, delivered_at=_earlier(known.delivered_at, fact.at))
        case FactKind.DELAYED:
            return replace(known, delayed_at=_earlier(known.delayed_at, fact.at))
        case FactKind.REJECTED:
            return replace(known, rejected_at=_earlier(known.rejected_at, fact.at))
        case FactKind.BOUNCED:
            return _merge_bounce(known, fact)
        case FactKind.COMPLAINED:
            return _merge_complaint(known, fact)
        case _:
            assert_never(fact.kind)


def _earlier(known: datetime | None, at: datetime) -> datetime:
    return at if known is None else min(known, at)


def _merge_bounce(known: RecipientFacts, fact: KnownFact) -> RecipientFacts:
    if known.bounced_at is not None:
        standing = (
            _bounce_rank(known.bounce_type),
            known.bounced_at,
            known.bounce_type or "",
            known.bounce_subtype or "",
        )
        new = (_bounce_rank(fact.type), fact.at, fact.type or "", fact.subtype or "")
        if standing <= new:
            return known
    return replace(known, bounced_at=fact.at, bounce_type=fact.type, bounce_subtype=fact.subtype)


def _merge_complaint(known: RecipientFacts, fact: KnownFact) -> RecipientFacts:
    if known.complained_at is not None:
        standing = (
            not is_personal(known.complaint_type),
            known.complained_at,
            known.complaint_type or "",
            known.complaint_subtype or "",
        )
        new = (not is_personal(fact.type), fact.at, fact.type or "", fact.subtype or "")
        if standing <= new:
            return known
    return replace(
        known, complained_at=fact.at, complaint_type=fact.type, complaint_subtype=fact.subtype
    )


def status(facts: RecipientFacts, *, in_accepted_call: bool, left_out: bool) -> RecipientStatus:
    """Say in one word what the facts come to (design.md, section 4)."""
    if facts.complained_at is not None and is_personal(facts.complaint_type):
        return RecipientStatus.COMPLAINED
    if facts.bounced_at is not None and is_permanent(facts.bounce_type):
        return RecipientStatus.BOUNCED
    if facts.rejected_at is not None:
        return RecipientStatus.REJECTED
    if facts.delivered_at is not None:
        return RecipientStatus.DELIVERED
    if facts.bounced_at is not None:
        return RecipientStatus.BOUNCED
    if facts.delayed_at is not None:
        return RecipientStatus.DELAYED
    if in_accepted_call:
        return RecipientStatus.SUBMITTED
    return RecipientStatus.SUPPRESSED if left_out else RecipientStatus.WAITING
