"""Emails as people and programs read them: the row, its recipients, calls, events and decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar
from uuid import UUID

from mail_service.domain.events import EXPECTED_WITHIN_SECONDS, EventKind
from mail_service.domain.facts import RecipientFacts, RecipientStatus, status
from mail_service.domain.states import AttemptState, EmailState, OnAmbiguous
from mail_service.store.database import Tx
from mail_service.store.narrowing import Filter, conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipientView:
    """One recipient with its facts."""

    email_id: UUID
    address: str | None
    kind: str
    delivered_at: datetime | None
    bounced_at: datetime | None
    bounce_type: str | None
    bounce_subtype: str | None
    complained_at: datetime | None
    complaint_type: str | None
    delayed_at: datetime | None
    rejected_at: datetime | None
    suppressed_at: datetime | None
    in_call: bool
    in_accepted_call: bool

    @property
    def status(self) -> RecipientStatus:
        """What the facts come to; derived here, stored nowhere."""
        return status(
            RecipientFacts(
                delivered_at=self.delivered_at,
                bounced_at=self.bounced_at,
                bounce_type=self.bounce_type,
                complained_at=self.complained_at,
                complaint_type=self.complaint_type,
                delayed_at=self.delayed_at,
                rejected_at=self.rejected_at,
            ),
            in_accepted_call=self.in_accepted_call,
            left_out=self.suppressed_at is not None and not self.in_call,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptView:
    """One call to SES. ``unconfirmed``: accepted a while ago, and no event speaks of it."""

    email_id: UUID
    id: UUID
    number: int
    epoch: int
    state: AttemptState
    request_tag: str
    provider_message_id: str | None
    error_class: str | None
    error_code: str | None
    started_at: datetime
    finished_at: datetime | None
    decision: str
    resolved_by: str | None
    unconfirmed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EventView:
    """One event that was matched to the email."""

    email_id: UUID
    id: UUID
    kind: EventKind
    occurred_at: datetime
    received_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionView:
    """One recorded decision of an operator or of the stated policy."""

    email_id: UUID
    by: str
    decision: str
    reason: str
    at: datetime


Part = TypeVar("Part", RecipientView, AttemptView, EventView, DecisionView)


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailRow:
    """The email's own row."""

    id: UUID
    dedup_key: str
    template: str
    account_id: UUID | None
    state: EmailState
    reason: str | None
    on_ambiguous: OnAmbiguous
    epoch: int
    priority: int
    created_at: datetime
    next_attempt_at: datetime | None
    not_after: datetime | None
    finished_at: datetime | None
    policy_note: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailView:
    """An email and everything that happened to it, in order."""

    email: EmailRow
    recipients: Sequence[RecipientView] = ()
    attempts: Sequence[AttemptView] = ()
    events: Sequence[EventView] = ()
    decisions: Sequence[DecisionView] = ()


_EMAIL = """
    o.id, o.dedup_key, o.template, o.account_id, o.state, o.reason, o.on_ambiguous, o.epoch,
    o.priority, o.created_at, o.next_attempt_at, o.not_after, o.finished_at, o.policy_note
"""


def by_id(tx: Tx, email_id: UUID) -> EmailView | None:
    """Give one email with everything, or None."""
    return next(iter(by_ids(tx, [email_id])), None)


def by_ids(tx: Tx, email_ids: Sequence[UUID]) -> list[EmailView]:
    """Give those of the emails that are there, with everything."""
    rows = tx.all(
        EmailRow,
        f"SELECT {_EMAIL} FROM mail_service.email_outbox o WHERE o.id = ANY(%s)",
        (list(email_ids),),
    )
    return _complete(tx, rows)


def page(
    tx: Tx, wanted: Filter, *, after: tuple[datetime, UUID] | None, limit: int
) -> list[EmailView]:
    """Give emails newest first, starting after a place in that order."""
    asked, params = conditions(wanted, after)
    rows = tx.all(
        EmailRow,
        # The page is found by ids first, which an index answers alone where only a state is asked for.
        f"""
        SELECT {_EMAIL} FROM (
            SELECT o.id FROM mail_service.email_outbox o
            WHERE true {asked}
            ORDER BY o.created_at DESC, o.id DESC LIMIT %(limit)s
        ) page JOIN mail_service.email_outbox o ON o.id = page.id
        ORDER BY o.created_at DESC, o.id DESC
        """,
        params | {"limit": limit},
    )
    return _complete(tx, rows)


def _complete(tx: Tx, rows: Sequence[EmailRow]) -> list[EmailView]:
    """Add to each email what belongs to it, with one statement per kind however many emails."""
    ids = [row.id for row in rows]
    if not ids:
        return []
    recipients = _by_email(
        tx.all(
            RecipientView,
            """
            SELECT r.email_id, r.address, r.kind::text AS kind, r.delivered_at, r.bounced_at,
                   r.bounce_type, r.bounce_subtype, r.complained_at, r.complaint_type, r.delayed_at,
                   r.rejected_at, r.suppressed_at,
                   COALESCE(c.any_call, false) AS in_call, COALESCE(c.accepted, false) AS in_accepted_call
            FROM mail_service.email_recipients r
            LEFT JOIN LATERAL (
                SELECT true AS any_call, bool_or(
                           a.state = 'accepted'
                           OR (a.resolved_by = 'operator' AND a.decision = 'submitted')) AS accepted
                FROM mail_service.attempt_recipients ar
                JOIN mail_service.send_attempts a ON a.id = ar.attempt_id
                WHERE ar.recipient_id = r.id HAVING count(*) > 0
            ) c ON true
            WHERE r.email_id = ANY(%s) ORDER BY r.email_id, r.position
            """,
            (ids,),
        )
    )
    attempts = _by_email(
        tx.all(
            AttemptView,
            """
            SELECT email_id, id, number, epoch, state, request_tag, provider_message_id, error_class,
                   error_code, started_at, finished_at, decision, resolved_by,
                   state = 'accepted'
                   AND started_at < mail_service.clock() - make_interval(secs => %s)
                   AND NOT EXISTS (SELECT FROM mail_service.ses_events e WHERE e.attempt_id = a.id)
                       AS unconfirmed
            FROM mail_service.send_attempts a WHERE email_id = ANY(%s) ORDER BY email_id, number
            """,
            (EXPECTED_WITHIN_SECONDS, ids),
        )
    )
    events = _by_email(
        tx.all(
            EventView,
            """
            SELECT a.email_id, e.id, e.kind, e.occurred_at, e.received_at
            FROM mail_service.ses_events e
            JOIN mail_service.send_attempts a ON a.id = e.attempt_id
            WHERE a.email_id = ANY(%s) ORDER BY a.email_id, e.occurred_at, e.received_at, e.id
            """,
            (ids,),
        )
    )
    decisions = _by_email(
        tx.all(
            DecisionView,
            """
            SELECT email_id, decided_by AS by, decision, reason, decided_at AS at
            FROM mail_service.email_decisions WHERE email_id = ANY(%s) ORDER BY decided_at, id
            """,
            (ids,),
        )
    )
    return [
        EmailView(
            email=row,
            recipients=recipients.get(row.id, ()),
            attempts=attempts.get(row.id, ()),
            events=events.get(row.id, ()),
            decisions=decisions.get(row.id, ()),
        )
        for row in rows
    ]


def _by_email(rows: Sequence[Part]) -> Mapping[UUID, Sequence[Part]]:
    found: dict[UUID, list[Part]] = {}
    for row in rows:
        found.setdefault(row.email_id, []).append(row)
    return found
