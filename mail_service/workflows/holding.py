"""Holds at work: opened by answers that are no email's fault, probed one at a time, cleared by success.

Called from the finalise, in its transaction; probes go out from the drain (:func:`probe`).
"""

from collections.abc import Sequence
from uuid import UUID

from mail_service.domain.holding import (
    UNKNOWN_OUTCOMES,
    UNKNOWNS_THAT_HOLD,
    ProbeEnd,
    probe_end,
    probe_wait,
    subject_of,
)
from mail_service.domain.outcomes import Accepted, Deferred, Held, HoldScope, Pace, Result, Unknown
from mail_service.errors import Conflict, NotFound
from mail_service.runtime import Runtime
from mail_service.store import claims, holds, rate
from mail_service.store.claims import Claimed
from mail_service.store.database import Tx
from mail_service.store.holds import Hold
from mail_service.workflows import journal
from mail_service.workflows.checks import check_reason


def terms(rt: Runtime) -> claims.Terms:
    """Give what every claim is bound by."""
    return claims.Terms(
        lease=rt.settings.lease_seconds,
        max_age=rt.settings.max_age_seconds,
        configuration_set=rt.settings.ses_configuration_set,
    )


def take_probes(rt: Runtime) -> tuple[list[Claimed], float | None]:
    """Lease one email for each hold whose time has come; gives them, and when to look again.

    The time is None while nothing is held. Where the answer to the commit was lost, the leases are
    looked up by our own tokens, as in :func:`dispatch.take`.
    """
    with rt.db.statement() as tx:
        wait = holds.seconds_until_probe(tx)
    if wait is None or wait > 0:
        return [], wait
    ids: list[UUID] = []

    def work(tx: Tx) -> tuple[list[Claimed], float | None]:
        ids.clear()
        taken: list[Claimed] = []
        for hold in holds.due_for_a_probe(tx):
            attempt_id = rt.new_id()
            ids.append(attempt_id)
            claimed = claims.claim_probe(
                tx,
                attempt_id=attempt_id,
                hold_id=hold.id,
                scope=hold.scope,
                sender=hold.subject if hold.scope is HoldScope.SENDER else None,
                template=hold.subject if hold.scope is HoldScope.TEMPLATE else None,
                not_by=hold.probed_sender,
                terms=terms(rt),
            )
            holds.begin_probe(
                tx,
                hold.id,
                attempt_id=claimed.attempt_id if claimed is not None else None,
                sender=claimed.sender_address if claimed is not None else None,
                next_seconds=_wait(rt, hold.probes + 1, hold.error_class)
                if claimed is not None
                else 1.0,
            )
            if claimed is not None:
                taken.append(claimed)
                journal.stage_once(
                    tx,
                    "hold.probed",
                    hold_id=hold.id,
                    scope=hold.scope,
                    email_id=claimed.email_id,
                    attempt_id=claimed.attempt_id,
                )
        return taken, holds.seconds_until_probe(tx)

    def found(tx: Tx) -> tuple[list[Claimed], float | None]:
        return claims.held_by(tx, ids), holds.seconds_until_probe(tx)

    return rt.db.transact(work, found=found)


def learn(
    rt: Runtime,
    tx: Tx,
    ended: Sequence[tuple[Claimed, Result]],
    *,
    probes: Sequence[UUID],
    unknowns_before: int,
) -> None:
    """Open, keep or clear holds by what these calls ended in, and adapt the shared rate.

    Given are those of the attempts that were seen to be probes, and the run of unknown outcomes before
    them: a group of acceptances in fair weather touches neither holds nor rate.
    """
    probed = holds.probed_by(tx, list(probes)) if probes else {}
    for row, result in ended:
        hold = probed.get(row.attempt_id)
        if hold is not None:
            _end_probe(rt, tx, hold, row, result)
        if isinstance(result, Held):
            _hold(rt, tx, row, result)
        if isinstance(result, Deferred) and result.pace is Pace.THROTTLED:
            rate.throttled(tx)
    _count_unknowns(rt, tx, [result for _, result in ended], before=unknowns_before)


def let_through(rt: Runtime, tx: Tx, attempt_ids: Sequence[UUID]) -> set[UUID]:
    """Give those leased attempts that may be called still, though holds were opened since their claim."""
    return holds.let_through(
        tx, list(attempt_ids), configuration_set=rt.settings.ses_configuration_set
    )


def lost(tx: Tx, attempt_ids: Sequence[UUID]) -> None:
    """Free the slots of probes whose lease ran out."""
    for hold in holds.probed_by(tx, list(attempt_ids)).values():
        holds.free_slot(tx, hold.id)


def clear(rt: Runtime, hold_id: UUID, *, reason: str, by: str) -> Hold:
    """Clear a hold by a person's decision. Raises NotFound, or Conflict when it is cleared already."""
    check_reason(reason)

    def work(tx: Tx) -> Hold:
        if holds.by_id(tx, hold_id) is None:
            raise NotFound("there is no such hold")
        cleared = holds.clear(tx, hold_id, by=by, reason=reason)
        if cleared is None:
            raise Conflict("this hold was cleared before")
        journal.stage_once(tx, "hold.cleared", hold_id=hold_id, by=by)
        return cleared

    return rt.db.transact(work)


def _end_probe(rt: Runtime, tx: Tx, hold: Hold, row: Claimed, result: Result) -> None:
    again = _subject(rt, row, result.scope) if isinstance(result, Held) else ""
    match probe_end(hold.scope, hold.subject, result, again):
        case ProbeEnd.CLEARS:
            holds.clear(tx, hold.id, by="probe", reason=type(result).__name__.lower())
            journal.stage_once(tx, "hold.cleared", hold_id=hold.id, scope=hold.scope, by="probe")
        case ProbeEnd.TELLS_NOTHING | ProbeEnd.CONFIRMS:
            holds.free_slot(tx, hold.id)


def _hold(rt: Runtime, tx: Tx, row: Claimed, result: Held) -> None:
    subject = _subject(rt, row, result.scope)
    _open(rt, tx, result, subject, probed_sender=row.sender_address)


def _count_unknowns(rt: Runtime, tx: Tx, results: Sequence[Result], *, before: int) -> None:
    unknowns = 0
    accepted = False
    for result in results:
        if isinstance(result, Accepted):
            accepted, unknowns = True, 0
        elif isinstance(result, Unknown):
            unknowns += 1
    if not unknowns and not (accepted and before):
        return
    if rate.count_unknowns(tx, accepted=accepted, unknowns=unknowns) < UNKNOWNS_THAT_HOLD:
        return
    why = Held(scope=HoldScope.ENDPOINT, error_class=UNKNOWN_OUTCOMES)
    _open(rt, tx, why, "", probed_sender=None)


def _open(rt: Runtime, tx: Tx, why: Held, subject: str, *, probed_sender: str | None) -> None:
    """Open a hold, with one alarm; of one that is open already only the reason is renewed."""
    opened = holds.open_hold(
        tx,
        hold_id=rt.new_id(),
        scope=why.scope,
        subject=subject,
        error_class=why.error_class,
        error_code=why.error_code,
        first_probe_seconds=_wait(rt, 0, why.error_class),
        probed_sender=probed_sender,
    )
    if opened:
        journal.alarm_once(
            tx,
            "sending_held",
            scope=why.scope,
            error_class=why.error_class,
            error_code=why.error_code,
        )


def _subject(rt: Runtime, row: Claimed, scope: HoldScope) -> str:
    return subject_of(
        scope,
        sender=row.sender_address,
        template=row.template_version,
        configuration_set=rt.settings.ses_configuration_set,
    )


def _wait(rt: Runtime, probes: int, error_class: str) -> float:
    return probe_wait(
        probes, error_class, base=rt.settings.retry_base_seconds, cap=rt.settings.retry_cap_seconds
    )
