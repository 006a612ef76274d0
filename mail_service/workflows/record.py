"""What calls came to is written: the third step of sending, after take and send (:mod:`dispatch`).

Nearly every result is an acceptance that meets its own claim and nothing else. A group of such is
written in one statement, which names all that it takes for granted; what met anything else is settled
under the locks of its emails, by all that is known of them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from mail_service.domain import sending
from mail_service.domain.outcomes import Accepted, Deferred, Held, Refused, Unknown
from mail_service.domain.sending import Limits, Move, Settlement
from mail_service.domain.states import AttemptState, EmailState
from mail_service.runtime import Runtime
from mail_service.store import acceptances, attempts, outbox, standings
from mail_service.store.attempts import Finding
from mail_service.store.database import Tx
from mail_service.store.outbox import Step
from mail_service.store.standings import Standing
from mail_service.workflows import holding, journal
from mail_service.workflows.dispatch import Ended
from mail_service.workflows.match import match_waiting


def results(rt: Runtime, group: Sequence[Ended]) -> list[Ended]:
    """Write what came of the calls; gives back those to be tried again.

    An email whose row somebody holds is not waited for: it comes back, so that one lock can't keep
    the others from being recorded. So does the second of two results of one email. A result of a lease
    that is no longer ours is kept as evidence.
    """
    plain = _accept(rt, group)
    rest = [ended for ended in group if ended.row.attempt_id not in plain]
    if not rest:
        return []

    def write(tx: Tx) -> list[tuple[Ended, Settlement]]:
        return _settle(rt, tx, rest)

    settled = rt.db.transact(write)
    for ended, settlement in settled:
        _tell(ended, settlement)
    done = {ended.row.attempt_id for ended, _ in settled}
    return [ended for ended in rest if ended.row.attempt_id not in done]


def _accept(rt: Runtime, group: Sequence[Ended]) -> set[UUID]:
    """Write acceptances that nothing else speaks about; gives the attempts that are done with.

    Only of a group of nothing else, since the order of acceptances and unknown outcomes counts.
    """
    message_ids = {
        ended.row.attempt_id: ended.result.provider_message_id
        for ended in group
        if isinstance(ended.result, Accepted)
    }
    if len(set(message_ids.values())) < len(group):
        return set()
    calls = {ended.row.attempt_id: ended.row.email_id for ended in group}
    done = rt.db.transact_one(lambda tx: acceptances.accept(tx, calls, message_ids))
    for ended in group:
        if ended.row.attempt_id in done:
            _tell(ended, _submitted(message_ids[ended.row.attempt_id]))
    return done


def _submitted(message_id: str) -> Settlement:
    """What :func:`sending.settle` says of an acceptance that meets its claim and nothing else."""
    return Settlement(
        attempt=AttemptState.ACCEPTED,
        provider_message_id=message_id,
        decision="submitted",
        move=Move(to=EmailState.SUBMITTED),
    )


def _recorded(found: Standing) -> Settlement:
    return Settlement(
        attempt=found.attempt.state,
        provider_message_id=found.attempt.provider_message_id,
        decision="recorded before",
        move=None,
    )


def _settle(rt: Runtime, tx: Tx, results: Sequence[Ended]) -> list[tuple[Ended, Settlement]]:
    limits = Limits(
        max_attempts=rt.settings.max_attempts,
        retry_base_seconds=rt.settings.retry_base_seconds,
        retry_cap_seconds=rt.settings.retry_cap_seconds,
    )
    free = set(outbox.free(tx, [ended.row.email_id for ended in results]))
    standing = standings.of_calls(
        tx, {e.row.attempt_id: _message_id(e) for e in results if e.row.email_id in free}
    )
    reused = _reused_message_ids(results, standing)
    settled: list[tuple[Ended, Settlement]] = []
    again: list[tuple[Ended, Settlement]] = []
    findings: list[Finding] = []
    steps: list[Step] = []
    for ended in results:
        # One result of an email at a time: a second one must see what the first one changed.
        if ended.row.email_id not in free:
            continue
        free.discard(ended.row.email_id)
        found = standing[ended.row.attempt_id]
        if found.recorded and not sending.says_more(found.attempt, ended.result):
            # It counts once: for the email, its hold, the rate and the run of unknown outcomes.
            again.append((ended, _recorded(found)))
            continue
        settlement = sending.settle(
            found.email, found.attempt, ended.result, limits=limits, jitter=rt.jitter()
        )
        if settlement.provider_message_id in reused:
            settlement = replace(
                settlement, provider_message_id=None, alarm="message_id_of_another_call"
            )
        settled.append((ended, settlement))
        findings.append(_finding(ended, settlement))
        if settlement.move is not None:
            steps.append(Step(email=found.email, move=settlement.move, attempt_id=found.attempt.id))
    attempts.learn(tx, findings)
    outbox.move(tx, steps, "worker")
    holding.learn(
        rt,
        tx,
        [(ended.row, ended.result) for ended, _ in settled],
        probes=[attempt_id for attempt_id, found in standing.items() if found.probes],
        unknowns_before=max((found.unknowns_in_a_row for found in standing.values()), default=0),
    )
    named = [s.provider_message_id for _, s in settled if s.provider_message_id is not None]
    if named:
        match_waiting(rt, tx, named)
    return settled + again


def _reused_message_ids(
    results: Sequence[Ended], standing: Mapping[UUID, Standing]
) -> set[str | None]:
    """Give the MessageIds in these results that are another call's. SES never repeats one."""
    times = Counter(message_id for e in results if (message_id := _message_id(e)) is not None)
    taken = {
        _message_id(ended)
        for ended in results
        if ended.row.attempt_id in standing and standing[ended.row.attempt_id].message_id_taken
    }
    return taken | {message_id for message_id, count in times.items() if count > 1}


def _message_id(ended: Ended) -> str | None:
    return ended.result.provider_message_id if isinstance(ended.result, Accepted) else None


def _finding(ended: Ended, settlement: Settlement) -> Finding:
    result = ended.result
    error_class = error_code = scope = None
    if isinstance(result, Refused | Deferred | Held | Unknown):
        error_class, error_code = result.error_class, result.error_code
    if isinstance(result, Held):
        scope = result.scope
    return Finding(
        attempt_id=ended.row.attempt_id,
        state=settlement.attempt,
        provider_message_id=settlement.provider_message_id,
        decision=settlement.decision,
        resolved_by="worker",
        error_class=error_class,
        error_code=error_code,
        hold_scope=scope,
        call_ended=True,
    )


def _tell(ended: Ended, settlement: Settlement) -> None:
    result = ended.result
    journal.stage(
        "email.settled",
        email_id=ended.row.email_id,
        attempt_id=ended.row.attempt_id,
        provider_message_id=settlement.provider_message_id,
        attempt_state=settlement.attempt,
        error_class=getattr(result, "error_class", None),
        error_code=getattr(result, "error_code", None),
        decision=settlement.decision,
        call_ms=round(ended.seconds * 1000, 1),
    )
    if settlement.alarm is not None:
        journal.alarm(
            settlement.alarm, email_id=ended.row.email_id, attempt_id=ended.row.attempt_id
        )
