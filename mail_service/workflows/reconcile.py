"""The sweep: what we hold is made to agree with what we know, whatever step did not happen.

One statement looks whether there is anything to do; a whole sweep comes once a minute all the same.
In bounded batches, each a transaction of its own, one sweep at a time by an advisory lock. Run by
the periodic actor, and by a drain that has seen no sweep for a while. Harmless at any time, also
twice at once: every statement locks with SKIP LOCKED or is guarded.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import UUID

from mail_service.domain import sending
from mail_service.domain.events import EventStatus
from mail_service.domain.states import AttemptState, Email
from mail_service.runtime import Runtime
from mail_service.store import (
    attempts,
    housekeeping,
    idempotency,
    outbox,
    subscriptions,
    sweeping,
    waiting,
)
from mail_service.store.attempts import Finding
from mail_service.store.database import Tx
from mail_service.store.outbox import Step
from mail_service.store.sweeping import Look
from mail_service.workflows import decide, holding, journal, pace, retain, silence, topics
from mail_service.workflows.match import match

BATCH = 500
MAX_BATCHES = 200
FOREIGN_AFTER_SECONDS = 24 * 3600
FRESH_SECONDS = 600.0
"""Longer than any transaction lasts. An event and the finalise of its call miss each other only while
both are open; ten minutes after both, either has found the other."""

EVER_SECONDS = 1e9
BROKER_ROWS_KEPT_SECONDS = 3600
WHOLE_AFTER_SWEEPS, WHOLE_AFTER_SECONDS = 12, 60.0
"""How long what does not press may wait, at most: whichever is sooner."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """How much one sweep found to do."""

    leases_expired: int = 0
    doubts_resolved: int = 0
    events_matched: int = 0
    events_given_up: int = 0
    policy_resends: int = 0
    list_changes: bool
    """Whether SES's suppression list is to be told something. The sweep itself never calls SES about it."""

    @property
    def found_something(self) -> bool:
        """Whether there was anything to do."""
        return bool(
            self.leases_expired
            or self.doubts_resolved
            or self.events_matched
            or self.events_given_up
            or self.policy_resends
        )


def sweep(rt: Runtime) -> Swept | None:
    """Do one sweep; gives what it found, None when another process is sweeping."""
    found = _look(rt)
    if found is None:
        return None
    if not found.chores:
        return Swept(list_changes=found.list_changes)
    swept = Swept(
        leases_expired=_in_batches(rt, _expire_leases),
        doubts_resolved=_in_batches(rt, _resolve_proved),
        events_matched=_match_waiting(rt),
        events_given_up=_in_batches(rt, _give_up),
        policy_resends=_alone(rt, lambda rt, tx: decide.apply_policy(rt, tx, BATCH)),
        list_changes=found.list_changes,
    )
    pace.refresh(rt)
    _in_batches(rt, _purge_broker)
    _in_batches(rt, _forget_answers)
    _confirm_subscriptions(rt)
    silence.watch(rt)
    retain.hourly(rt)
    with rt.db.statement() as tx:
        housekeeping.beat(tx, sweeping.WHOLE)
    return swept


def seconds_until_overdue(rt: Runtime, seconds: float) -> float:
    """Give the time until no sweep was begun for so long; 0 or less when that is so already."""
    with rt.db.statement() as tx:
        since = housekeeping.seconds_since(tx, sweeping.SWEEP)
    return 0.0 if since is None else seconds - since


def _look(rt: Runtime) -> Look | None:
    fixed = rt.settings.send_rate
    with rt.db.statement() as tx:
        return sweeping.look(
            tx,
            whole_every_seconds=min(
                WHOLE_AFTER_SECONDS, WHOLE_AFTER_SWEEPS * rt.settings.sweep_seconds
            ),
            quiet_seconds=rt.settings.reconcile_after_seconds,
            fresh_seconds=FRESH_SECONDS,
            fixed_rate=None if fixed == "auto" else fixed,
            confirm_subscriptions=rt.settings.sns_auto_confirm,
        )


def _alone(rt: Runtime, work: Callable[[Runtime, Tx], int]) -> int:
    """Do the work in a transaction if nobody else sweeps; gives what it gives, else 0."""

    def guarded(tx: Tx) -> int:
        return work(rt, tx) if sweeping.take_sweep(tx) else 0

    return rt.db.transact(guarded)


def _in_batches(rt: Runtime, work: Callable[[Runtime, Tx], int]) -> int:
    """Repeat a batch until it finds nothing; the number of batches is bounded all the same."""
    total = 0
    for _ in range(MAX_BATCHES):
        done = _alone(rt, work)
        total += done
        if done < BATCH:
            break
    return total


def _expire_leases(rt: Runtime, tx: Tx) -> int:
    """Call emails ambiguous whose lease ran out: the call may have been made, may still be running."""
    return _close(tx, outbox.expired(tx, BATCH))


def _resolve_proved(rt: Runtime, tx: Tx) -> int:
    """Submit emails in doubt of which an attempt is known to be accepted."""
    return _close(tx, outbox.proved(tx, BATCH))


def _close(tx: Tx, emails: Mapping[UUID, Email]) -> int:
    """End what the emails' newest attempts left open: doubt, or what evidence already proved."""
    if not emails:
        return 0
    known = attempts.newest(tx, list(emails))
    findings: list[Finding] = []
    steps: list[Step] = []
    for email in emails.values():
        attempt = known[email.id]
        settlement = sending.expire(email, attempt)
        findings.append(
            Finding(
                attempt_id=attempt.id,
                state=settlement.attempt,
                provider_message_id=settlement.provider_message_id,
                decision=settlement.decision,
                resolved_by="sweep" if settlement.attempt is AttemptState.UNKNOWN else None,
                error_class="lease_expired" if settlement.attempt is AttemptState.UNKNOWN else None,
            )
        )
        if settlement.move is not None:
            steps.append(Step(email=email, move=settlement.move, attempt_id=attempt.id))
        journal.stage_once(
            tx,
            "lease.expired",
            email_id=email.id,
            attempt_id=attempt.id,
            decision=settlement.decision,
        )
    attempts.learn(tx, findings)
    outbox.move(tx, steps, "sweep")
    holding.lost(tx, [finding.attempt_id for finding in findings])
    return len(emails)


def _match_waiting(rt: Runtime) -> int:
    """Match events that came before their MessageId was saved.

    Only those since the last time, and those about to be given up: whatever else waits was looked at,
    and a flood of another application's events must not make every sweep long.
    """
    with rt.db.transaction() as tx:
        since = housekeeping.seconds_since(tx, sweeping.MATCHED)
    oldest = EVER_SECONDS if since is None else since + FRESH_SECONDS
    fresh = _in_batches(rt, lambda rt, tx: _match(rt, tx, oldest=oldest, newest=-FRESH_SECONDS))
    old = _in_batches(
        rt, lambda rt, tx: _match(rt, tx, oldest=EVER_SECONDS, newest=FOREIGN_AFTER_SECONDS)
    )
    with rt.db.transaction() as tx:
        housekeeping.beat(tx, sweeping.MATCHED)
    return fresh + old


def _match(rt: Runtime, tx: Tx, *, oldest: float, newest: float) -> int:
    found = waiting.matchable(tx, oldest_seconds=oldest, newest_seconds=newest, limit=BATCH)
    return sum(match(rt, tx, event) is EventStatus.MATCHED for event in found)


def _give_up(rt: Runtime, tx: Tx) -> int:
    return waiting.give_up(tx, older_than_seconds=FOREIGN_AFTER_SECONDS, limit=BATCH)


def _purge_broker(rt: Runtime, tx: Tx) -> int:
    return housekeeping.purge_broker(tx, older_than_seconds=BROKER_ROWS_KEPT_SECONDS, limit=BATCH)


def _forget_answers(rt: Runtime, tx: Tx) -> int:
    return idempotency.forget(tx, BATCH)


def _confirm_subscriptions(rt: Runtime) -> None:
    with rt.db.transaction() as tx:
        if expired := subscriptions.expire(tx):
            journal.alarm_once(tx, "subscription_expired", offers=expired)
        offers = subscriptions.open_offers(tx, 10) if rt.settings.sns_auto_confirm else []
    for offer in offers:
        topics.confirm(rt, offer)
