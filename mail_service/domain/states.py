"""The states of an email and of an attempt, and the only edges between them.

``docs/states.md`` draws the edges, the database has the same labels, and a test compares. Which edge
is taken when is decided in :mod:`sending`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID


class EmailState(StrEnum):
    """What we know of an email. Order and labels equal the enum in the database."""

    PENDING = "pending"
    SENDING = "sending"
    SUBMITTED = "submitted"
    FAILED = "failed"
    AMBIGUOUS = "ambiguous"
    SUPPRESSED = "suppressed"
    CANCELLED = "cancelled"


class AttemptState(StrEnum):
    """What we know of one call. Order and labels equal the enum in the database."""

    STARTED = "started"
    UNKNOWN = "unknown"
    ACCEPTED = "accepted"
    RETRYABLE = "retryable"
    PERMANENT = "permanent"
    HELD = "held"
    RELEASED = "released"


class OnAmbiguous(StrEnum):
    """The stated policy for an email in doubt."""

    HOLD = "hold"
    RESEND = "resend"


TRANSITIONS: Mapping[EmailState, frozenset[EmailState]] = {
    EmailState.PENDING: frozenset(
        {
            EmailState.SENDING,
            EmailState.SUPPRESSED,
            EmailState.CANCELLED,
            EmailState.FAILED,
            EmailState.SUBMITTED,
        }
    ),
    EmailState.SENDING: frozenset(
        {EmailState.SUBMITTED, EmailState.PENDING, EmailState.FAILED, EmailState.AMBIGUOUS}
    ),
    EmailState.AMBIGUOUS: frozenset({EmailState.SUBMITTED, EmailState.PENDING, EmailState.FAILED}),
    EmailState.FAILED: frozenset({EmailState.SUBMITTED, EmailState.PENDING}),
    EmailState.CANCELLED: frozenset({EmailState.SUBMITTED}),
    EmailState.SUPPRESSED: frozenset({EmailState.SUBMITTED, EmailState.PENDING}),
    EmailState.SUBMITTED: frozenset(),
}
"""Every edge there is; nothing else moves an email."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Email:
    """What a decision about an email needs to know. ``accepted``: SES took one of its attempts."""

    id: UUID
    state: EmailState
    epoch: int
    lease_token: UUID | None
    attempts: int
    refusals: int
    deferrals: int
    accepted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What a decision about an attempt needs to know."""

    id: UUID
    email_id: UUID
    number: int
    epoch: int
    state: AttemptState
    provider_message_id: str | None
