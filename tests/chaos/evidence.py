"""What the auditor judges by: the world's logs, the clients' logs, and the tables, which are the accused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tests.campaign.auditor import Evidence, Row, tag_of
from tests.chaos.load import Stopped, Submitted
from tests.chaos.people import Decided
from tests.chaos.witness import Span

READABLE = {200, 400, 429}
SLOW_ANSWER_SECONDS = 1.5
"""An answer that took longer may have come when the caller had just given up."""

HELD_FOR_SECONDS = 25.0
"""How long a worker may hold a result: a call, and a database that is away or half-open."""


@dataclass(frozen=True)
class Found:
    """The campaign's evidence and what came of the further faults."""

    campaign: Evidence
    submitted: list[Submitted] = field(default_factory=list)
    stopped: list[Stopped] = field(default_factory=list)
    payloads_taken_twice: list[str] = field(default_factory=list)
    forged: dict[str, list[int]] = field(default_factory=dict)
    decided: list[Decided] = field(default_factory=list)
    habits: list[Row] = field(default_factory=list)
    hurt: dict[str, list[float]] = field(default_factory=dict)
    claimed: set[str] | None = None
    """Tags of the claims that workers logged: the others' answers were lost. None: not looked at."""
    answers_lost: int = 0
    """How often a drain lost its connection, and with it perhaps the answer to a claim."""
    emails: list[Row] = field(default_factory=list)
    attempts: list[Row] = field(default_factory=list)
    transitions: list[Row] = field(default_factory=list)
    decisions: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    recipients: list[Row] = field(default_factory=list)
    suppressions: list[Row] = field(default_factory=list)
    suppressed: list[Row] = field(default_factory=list)
    """Every change of a suppression, with the time of its commit."""
    holds: list[Row] = field(default_factory=list)
    poisoned: set[str] = field(default_factory=set)
    """Dedup keys of the emails that no worker can render."""
    looks: int = 0
    idle: list[str] = field(default_factory=list)
    """Transactions that were seen idle for too long, in so many looks."""
    away: list[Span] = field(default_factory=list)
    """When the database was away, or all connections to it were lost."""
    nobody_there: list[Span] = field(default_factory=list)
    """When there was no worker, no clock, or nobody who could sweep."""
    locked: Mapping[str, list[Span]] = field(default_factory=dict)
    """When an email's row was held through a connection through which nothing passes."""

    @cached_property
    def calls(self) -> dict[str, list[Row]]:
        """The rows of the world's log by tag."""
        calls: dict[str, list[Row]] = defaultdict(list)
        for row in self.campaign.calls:
            calls[tag_of(row)].append(row)
        return dict(calls)  # so that to look is not to add

    @cached_property
    def by_tag(self) -> dict[str, Row]:
        """The attempts by tag."""
        return {row["request_tag"]: row for row in self.attempts}

    @cached_property
    def of_email(self) -> dict[str, list[Row]]:
        """The attempts of each email, oldest first."""
        attempts: dict[str, list[Row]] = defaultdict(list)
        for row in sorted(self.attempts, key=lambda row: row["number"]):
            attempts[row["email_id"]].append(row)
        return attempts

    @cached_property
    def tag_of_message(self) -> dict[str, str]:
        """The tag under which each MessageId was given."""
        return {
            row["message_id"]: tag_of(row)
            for row in self.campaign.calls
            if row["event"] == "accepted"
        }

    @cached_property
    def told(self) -> set[tuple[str, str]]:
        """MessageId and kind of each event that was answered 2xx."""
        return {
            (row["provider_message_id"], row["event"])
            for row in self.campaign.deliveries
            if row.get("event")
            and row["status"] is not None
            and row["status"] < 300
            # In the middle of a run the log of calls may be the older one.
            and row["provider_message_id"] in self.tag_of_message
        }

    @cached_property
    def proved(self) -> set[str]:
        """Tags of accepted calls of which any event was answered 2xx."""
        return {self.tag_of_message[message] for message, _ in self.told}

    def was_hurt(self, attempt: Row) -> bool:
        """Whether the attempt's worker was killed or stopped while it may have held its result."""
        begun = attempt["started_at"].timestamp()
        return any(
            begun <= at <= begun + HELD_FOR_SECONDS for at in self.hurt.get(attempt["worker"], ())
        )

    def never_learned(self, attempt: Row) -> bool:
        """Whether the claim was done and its worker never knew, because the answer was lost."""
        tag = attempt["request_tag"]
        return self.claimed is not None and tag not in self.claimed and tag not in self.calls

    def accepted(self, tag: str) -> bool:
        """Whether the world took this call."""
        return any(row["event"] == "accepted" for row in self.calls.get(tag, ()))

    def knowable(self, tag: str) -> bool:
        """Whether the caller could read from the answer what became of the call."""
        rows = {row["event"]: row for row in self.calls.get(tag, ())}
        if "answered" not in rows or "arrived" not in rows:
            return False
        slow = rows["answered"]["at"] - rows["arrived"]["at"] > SLOW_ANSWER_SECONDS
        readable = rows["answered"]["status"] in READABLE
        return readable and rows["answered"]["behaviour"] != "garbage" and not slow


_EMAILS = """
SELECT id::text, account_id::text, dedup_key, state::text, reason, epoch, attempts,
       on_ambiguous::text, lease_expires_at < now() AS expired
FROM mail_service.email_outbox
"""
_ATTEMPTS = """
SELECT a.id::text, a.request_tag, a.email_id::text, a.number, a.epoch, a.state::text,
       a.provider_message_id, a.error_class, a.started_at, a.finished_at, a.resolved_by,
       c.worker, c.begun,
       ARRAY(SELECT r.address FROM mail_service.attempt_recipients ar
             JOIN mail_service.email_recipients r ON r.id = ar.recipient_id
             WHERE ar.attempt_id = a.id) AS addresses
FROM mail_service.send_attempts a LEFT JOIN campaign.claims c ON c.attempt_id = a.id
"""
_TRANSITIONS = """
SELECT email_id::text, from_state::text, to_state::text, actor, attempt_id::text, at
FROM mail_service.email_transitions ORDER BY id
"""
_DECISIONS = """
SELECT email_id::text, attempt_id::text, decision, decided_by, epoch_before, epoch_after
FROM mail_service.email_decisions ORDER BY decided_at
"""
_EVENTS = """
SELECT sns_message_id, kind::text, status::text, attempt_id::text, request_tag, provider_message_id
FROM mail_service.ses_events
"""
_RECIPIENTS = """
SELECT email_id::text, address, delivered_at, bounced_at, complained_at, delayed_at, suppressed_at
FROM mail_service.email_recipients
"""
_SUPPRESSIONS = """
SELECT address, reason::text, released_at IS NULL AS active FROM mail_service.suppressions
"""
_SUPPRESSED = """
SELECT address, was, became, released, pg_xact_commit_timestamp(xid::text::bigint::text::xid) AS at
FROM campaign.suppressions ORDER BY at
"""
_HOLDS = """
SELECT h.id::text, h.scope::text, h.cleared_at,
       ARRAY(SELECT n.probe::text FROM campaign.holds n
             WHERE n.hold_id = h.id AND n.probe IS NOT NULL) AS probes,
       (SELECT pg_xact_commit_timestamp(n.xid::text::bigint::text::xid) FROM campaign.holds n
        WHERE n.hold_id = h.id AND n.opened) AS opened_at
FROM mail_service.holds h
"""


def tables(sql: Any) -> dict[str, list[Row]]:
    """Read the accused."""
    return {
        "emails": sql(_EMAILS),
        "attempts": sql(_ATTEMPTS),
        "transitions": sql(_TRANSITIONS),
        "decisions": sql(_DECISIONS),
        "events": sql(_EVENTS),
        "recipients": sql(_RECIPIENTS),
        "suppressions": sql(_SUPPRESSIONS),
        "suppressed": sql(_SUPPRESSED),
        "holds": sql(_HOLDS),
    }
