"""Read-only answers: emails, events, suppressions, figures, readiness."""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar
from uuid import UUID

from mail_service.domain.address import keyed_hash, match_key
from mail_service.domain.events import EventStatus
from mail_service.domain.suppression import SuppressionReason
from mail_service.errors import InvalidFields, NotFound
from mail_service.runtime import Runtime
from mail_service.store import (
    accounts,
    event_stats,
    events,
    holds,
    housekeeping,
    schema,
    stats,
    subscriptions,
    suppression_syncs,
    suppressions,
    sweeping,
    views,
)
from mail_service.store.accounts import Account
from mail_service.store.event_stats import Events, Reputation
from mail_service.store.holds import Hold
from mail_service.store.narrowing import Filter
from mail_service.store.stats import Calls, Counted, Delay, Queue
from mail_service.store.subscriptions import Subscription
from mail_service.store.suppression_syncs import Drift
from mail_service.store.views import EmailView

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page(Generic[Item]):
    """Some items of a list, and where the next ones start (None: these were the last)."""

    items: Sequence[Item]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Everything an operator sees at a glance; each kind of trouble apart from the others."""

    queue: Queue
    failed: Sequence[Counted]
    suppressed: Sequence[Counted]
    cancelled: Sequence[Counted]
    suppressions: Sequence[Counted]
    suppression_drift: Drift
    events: Events
    reputation: Reputation
    events_silent_seconds: float | None
    events_last_hour: Sequence[Counted]
    event_payloads_dropped_last_day: Sequence[Counted]
    subscriptions: Sequence[Counted]
    calls_last_hour: Sequence[Calls]
    delays_last_hour: Delay
    webhook_rejections_last_day: Sequence[Counted]
    broker_queue: int | None
    last_sweep_seconds: float | None
    holds: Sequence[Counted]
    retries_last_hour: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Readiness:
    """Whether this process can do its work, how long ago the last sweep was, and whether events come."""

    schema_version: str | None
    schema_needed: str
    last_sweep_seconds: float | None
    events_silent_seconds: float | None

    @property
    def ready(self) -> bool:
        """The database answered, and the schema is the one this code needs, or newer."""
        return self.schema_version is not None and self.schema_version >= self.schema_needed


def account(rt: Runtime, account_id: UUID) -> Account:
    """Give an account. Raises NotFound."""
    with rt.db.transaction() as tx:
        found = accounts.by_id(tx, account_id)
    if found is None:
        raise NotFound("there is no such account")
    return found


def email(rt: Runtime, email_id: UUID) -> EmailView:
    """Give one email with everything that happened to it. Raises NotFound."""
    with rt.db.snapshot() as tx:
        found = views.by_id(tx, email_id)
    if found is None:
        raise NotFound("there is no such email")
    return found


def list_emails(rt: Runtime, wanted: Filter, *, after: str | None, limit: int) -> Page[EmailView]:
    """Give emails newest first."""
    with rt.db.snapshot() as tx:
        found = views.page(tx, wanted, after=_place(after), limit=limit + 1)
    return _page(found, limit, [(view.email.created_at, view.email.id) for view in found])


def open_holds(rt: Runtime) -> list[Hold]:
    """Give what stops sending now, oldest first."""
    with rt.db.transaction() as tx:
        return holds.open_now(tx)


def list_events(
    rt: Runtime, status: EventStatus | None, *, after: str | None, limit: int
) -> Page[events.Listed]:
    """Give stored events newest first, by how far they were understood."""
    with rt.db.transaction() as tx:
        found = events.page(tx, status=status, after=_place(after), limit=limit + 1)
    return _page(found, limit, [(event.received_at, event.id) for event in found])


def list_subscriptions(rt: Runtime, *, limit: int) -> list[Subscription]:
    """Give what SNS offered to bring us and what became of it, newest first."""
    with rt.db.transaction() as tx:
        return subscriptions.listed(tx, limit)


def list_suppressions(
    rt: Runtime,
    *,
    address: str | None,
    reason: SuppressionReason | None,
    active: bool | None,
    after: str | None,
    limit: int,
) -> Page[suppressions.Suppression]:
    """Give suppressions newest first."""
    with rt.db.transaction() as tx:
        found = suppressions.page(
            tx,
            address_hash=address_hash(rt, "address", address) if address is not None else None,
            reason=reason,
            active=active,
            after=_place(after),
            limit=limit + 1,
        )
    return _page(found, limit, [(row.created_at, row.id) for row in found])


def address_hash(rt: Runtime, field: str, address: str) -> bytes:
    """Give the hash to look an address up by. Raises InvalidFields."""
    if match_key(address) is None:
        raise InvalidFields({field: "expected an email address"})
    return keyed_hash(rt.address_key, address)


def figures(rt: Runtime) -> Figures:
    """Give every figure, read from the database in one transaction."""
    with rt.db.transaction() as tx:
        return Figures(
            queue=stats.queue(tx),
            failed=stats.ended_badly(tx, "failed"),
            suppressed=stats.ended_badly(tx, "suppressed"),
            cancelled=stats.ended_badly(tx, "cancelled"),
            suppressions=stats.active_suppressions(tx),
            suppression_drift=suppression_syncs.drift(tx),
            events=event_stats.events(tx),
            reputation=event_stats.reputation(tx),
            events_silent_seconds=events.silent_seconds(tx),
            events_last_hour=event_stats.by_kind(tx),
            event_payloads_dropped_last_day=event_stats.dropped_payloads(tx),
            subscriptions=event_stats.subscriptions(tx),
            calls_last_hour=stats.calls(tx),
            delays_last_hour=stats.delays(tx),
            webhook_rejections_last_day=stats.rejections(tx),
            broker_queue=stats.broker_queue(tx),
            last_sweep_seconds=housekeeping.seconds_since(tx, sweeping.SWEEP),
            holds=stats.open_holds(tx),
            retries_last_hour=stats.retries(tx),
        )


def readiness(rt: Runtime) -> Readiness:
    """Say whether the database answers and fits this code. Raises Unavailable when it does not answer."""
    with rt.db.transaction() as tx:
        return Readiness(
            schema_version=schema.version(tx),
            schema_needed=schema.newest(),
            last_sweep_seconds=housekeeping.seconds_since(tx, sweeping.SWEEP),
            events_silent_seconds=events.silent_seconds(tx),
        )


def _page(found: Sequence[Item], limit: int, places: Sequence[tuple[datetime, UUID]]) -> Page[Item]:
    if len(found) <= limit:
        return Page(found, None)
    at, last = places[limit - 1]
    cursor = f"{at.isoformat()} {last}".encode()
    return Page(found[:limit], base64.urlsafe_b64encode(cursor).decode())


def _place(cursor: str | None) -> tuple[datetime, UUID] | None:
    if cursor is None:
        return None
    try:
        at, last = base64.urlsafe_b64decode(cursor.encode()).decode().split(" ")
        return datetime.fromisoformat(at), UUID(last)
    except (binascii.Error, UnicodeError, ValueError) as odd:
        raise InvalidFields({"after": "expected the next of an earlier answer"}) from odd
