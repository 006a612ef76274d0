"""Decisions about an email: an operator's, the caller's, and the stated policy's. One row, one effect."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from mail_service.domain.deciding import Circumstances, Decision, again, decide, why_policy_waits
from mail_service.domain.sending import Move
from mail_service.domain.states import Email, EmailState
from mail_service.errors import Conflict, Impossible, InvalidFields, NotFound
from mail_service.runtime import Runtime
from mail_service.store import attempts, decisions, outbox, views
from mail_service.store.database import Tx
from mail_service.store.decisions import Doubt
from mail_service.store.outbox import Step
from mail_service.store.views import EmailView
from mail_service.workflows import journal
from mail_service.workflows.checks import check_reason

POLICY = "policy"


def resolve(
    rt: Runtime, email_id: UUID, *, decision: Decision, reason: str, attempt_id: UUID, by: str
) -> EmailView:
    """Take an email out of doubt by a person's decision.

    Raises NotFound, InvalidFields, or Conflict: when it is no longer in doubt, when ``attempt_id`` is
    not the newest attempt (the page was old), or, for a resend, while the old call may still run, once
    its content was erased or its ``not_after`` has passed.
    """
    check_reason(reason)

    def work(tx: Tx) -> EmailView:
        email, doubt = _locked(rt, tx, email_id)
        if email.state is not EmailState.AMBIGUOUS:
            raise Conflict(f"this email is {email.state}, not ambiguous")
        _refuse_a_stale_page(tx, email, Seen(attempt_id=attempt_id))
        if decision is Decision.RESEND:
            _refuse_while_the_call_may_run(rt, doubt)
            if not doubt.content_there:
                raise Conflict("the content of this email is erased")
            if doubt.past_not_after:
                # It would be answered 200, and fail at its next claim.
                raise Conflict(
                    f"its not_after, {doubt.not_after:%Y-%m-%dT%H:%M:%SZ}, has passed, so it would not go "
                    "out: abandon it, and requeue it with a new not_after if it is still wanted"
                )
        if decision is Decision.ACCEPTED:
            attempts.settle_by_operator(tx, attempt_id)
        return _write(rt, tx, email, decide(decision), decision.value, reason, attempt_id, by)

    return rt.db.transact(work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a page showed when it was decided on; None where it does not say."""

    epoch: int | None = None
    attempt_id: UUID | None = None


def requeue(
    rt: Runtime,
    email_id: UUID,
    *,
    reason: str,
    not_after: datetime | None,
    by: str,
    seen: Seen | None = None,
) -> EmailView:
    """Open a new epoch for a failed or suppressed email.

    Raises NotFound, InvalidFields, or Conflict: in any other state, while an old call may still run,
    once its content was erased, past its ``not_after`` unless a new one is given, and when what was
    ``seen`` has moved on.
    """
    check_reason(reason)

    def work(tx: Tx) -> EmailView:
        email, doubt = _locked(rt, tx, email_id)
        if email.state not in {EmailState.FAILED, EmailState.SUPPRESSED}:
            raise Conflict(f"this email is {email.state}, not failed or suppressed")
        if email.accepted:
            raise Conflict("SES has accepted this email")
        _refuse_a_stale_page(tx, email, seen or Seen())
        if not doubt.call_ended:
            _refuse_while_the_call_may_run(rt, doubt)
        if not doubt.content_there:
            raise Conflict("the content of this email is erased")
        if not_after is not None:
            if not_after <= tx.now:
                raise InvalidFields({"not_after": "expected a time to come"})
            decisions.set_not_after(tx, email_id, not_after)
        elif doubt.past_not_after:
            raise Conflict("its not_after has passed: give a new one")
        move = again("requeued_by_operator")
        return _write(rt, tx, email, move, "requeue", reason, None, by)

    return rt.db.transact(work)


def cancel(rt: Runtime, email_id: UUID, *, by: str, why: str = "asked by the caller") -> EmailView:
    """Cancel an email that is still pending. Raises NotFound, or Conflict in any other state."""

    def work(tx: Tx) -> EmailView:
        email, _ = _locked(rt, tx, email_id)
        if email.state is not EmailState.PENDING:
            raise Conflict(f"this email is {email.state}, not pending")
        move = Move(to=EmailState.CANCELLED, reason="cancelled_by_caller")
        return _write(rt, tx, email, move, "cancel", why, None, by)

    return rt.db.transact(work)


def apply_policy(rt: Runtime, tx: Tx, limit: int) -> int:
    """Send again what the stated policy says to, and note why where it may not; gives how many went."""
    ids = decisions.for_policy(tx, quiet_seconds=rt.settings.reconcile_after_seconds, limit=limit)
    if not ids:
        return 0
    arrive = decisions.events_arrive(tx)
    sent = 0
    for email_id, email in sorted(outbox.lock_free(tx, ids).items()):
        doubt = decisions.doubt(tx, email_id, max_age_seconds=rt.settings.max_age_seconds)
        if doubt is None:
            raise Impossible("a locked email is gone")
        waits = why_policy_waits(
            email,
            Circumstances(
                policy_resends=doubt.policy_resends,
                max_policy_resends=rt.settings.max_policy_resends,
                past_not_after=doubt.past_not_after,
                past_maximum_age=doubt.past_maximum_age,
                configuration_set_named=rt.settings.ses_configuration_set is not None,
                events_arrive=arrive,
                unfinished_calls=doubt.unfinished_calls,
                content_there=doubt.content_there,
            ),
        )
        if waits is not None:
            decisions.note(tx, email_id, waits)
            continue
        newest = attempts.newest(tx, [email_id])[email_id]
        reason = f"no evidence for {rt.settings.reconcile_after_seconds:g} s"
        _write(rt, tx, email, again("resent_by_policy"), "resend", reason, newest.id, POLICY)
        sent += 1
    return sent


def _locked(rt: Runtime, tx: Tx, email_id: UUID) -> tuple[Email, Doubt]:
    email = outbox.lock(tx, email_id)
    doubt = decisions.doubt(tx, email_id, max_age_seconds=rt.settings.max_age_seconds)
    if email is None or doubt is None:
        raise NotFound("there is no such email")
    return email, doubt


def _refuse_a_stale_page(tx: Tx, email: Email, seen: Seen) -> None:
    newest = attempts.newest(tx, [email.id]).get(email.id)
    if seen.epoch is not None and seen.epoch != email.epoch:
        raise Conflict("another epoch has opened since: look again and decide anew")
    if seen.attempt_id is not None and (newest is None or newest.id != seen.attempt_id):
        raise Conflict("attempt_id is not the newest attempt: look again and decide anew")


def _refuse_while_the_call_may_run(rt: Runtime, doubt: Doubt) -> None:
    until = rt.settings.lease_seconds + rt.settings.call_seconds
    if doubt.started_ago is not None and doubt.started_ago < until:
        left = until - doubt.started_ago
        raise Conflict(f"the old call may still be running for {left:.0f} s: try again after that")


def _write(
    rt: Runtime,
    tx: Tx,
    email: Email,
    move: Move,
    decision: str,
    reason: str,
    attempt_id: UUID | None,
    by: str,
) -> EmailView:
    epoch_after = email.epoch + (1 if move.new_epoch else 0)
    if not outbox.move(tx, [Step(email=email, move=move, attempt_id=attempt_id)], by):
        raise Impossible("a locked email was moved by somebody else")
    decisions.add(
        tx,
        decisions.Decision(
            id=rt.new_id(),
            email_id=email.id,
            attempt_id=attempt_id,
            decision=decision,
            by=by,
            reason=reason,
            epoch_before=email.epoch,
            epoch_after=epoch_after,
        ),
    )
    journal.stage_once(
        tx,
        "email.decided",
        email_id=email.id,
        attempt_id=attempt_id,
        decision=decision,
        by=by,
        epoch=epoch_after,
    )
    view = views.by_id(tx, email.id)
    if view is None:
        raise Impossible("a locked email is gone")
    return view
