"""SES's suppression list is told what was decided here, one mailbox at a time.

What a person suppressed is put there, what a person released is deleted there. What an event suppressed
is not put: SES lists that by itself, and where it does not, somebody chose so for the whole account.
Which change is due stands in the suppression's row, written in the transaction that decided it; so it
is carried out however often a process dies or SES is down.
"""

from collections.abc import Callable

from mail_service.domain.suppression import Listed, SesListState
from mail_service.errors import Unavailable
from mail_service.runtime import Runtime
from mail_service.store import ses_changes, ses_list
from mail_service.store.ses_changes import Change
from mail_service.workflows import journal
from mail_service.workflows.suppression_calls import Pause, ask

RETRY_BASE_SECONDS, RETRY_CAP_SECONDS = 60.0, 3600.0
FAILURES_IN_A_ROW = 2
"""After so many, what is wrong is not the address: the rest would fail as well."""
FAILURES_WHEN_ASKED = 20
"""The same where a person asked for all of it: a few addresses that SES does not take hide nothing."""


def carry_out(
    rt: Runtime,
    *,
    pause: Pause,
    at_most: int = 1_000_000,
    give_up_after: int = FAILURES_IN_A_ROW,
    tell: Callable[[], None] = lambda: None,
) -> str | None:
    """Tell SES's list what was decided; gives None when all went well, else what went wrong last.

    ``tell`` hears of each change that is done or has failed. A change that failed is tried again after
    a while; after ``give_up_after`` in a row the others wait as well.
    """
    problem: str | None = None
    failures = 0
    for _ in range(at_most):
        with rt.db.transaction() as tx:
            change = ses_changes.next_change(tx)
        if change is None:
            break
        try:
            outcome = _carry_out(rt, change, pause)
        except Unavailable as fault:
            failures += 1
            problem = str(fault)
            _failed(rt, change, problem)
        except BaseException:
            # Stopped between two calls: whoever looks next may go on with it.
            with rt.db.transaction() as tx:
                ses_changes.give_back(tx, change)
            raise
        else:
            failures = 0
            with rt.db.transaction() as tx:
                ses_changes.done(tx, change, outcome)
            journal.stage("suppression.at_ses", suppression_id=change.id, state=outcome)
        tell()
        if failures == give_up_after:
            break
    if problem is not None:
        journal.alarm("suppression_list_not_told", why=problem)
    return problem


def hurry(rt: Runtime) -> int:
    """Let what failed before, and waits to be tried again, be tried now; gives how many there are."""
    with rt.db.transaction() as tx:
        return ses_changes.hurry(tx)


def waiting(rt: Runtime) -> int:
    """Give how many changes SES's list is still to be told of."""
    with rt.db.transaction() as tx:
        return ses_changes.pending(tx)


def _carry_out(rt: Runtime, change: Change, pause: Pause) -> SesListState:
    """Look what SES lists, then delete or put; gives what its list has now."""
    if change.stands_again:
        return SesListState.KEPT
    found = ask(rt, pause, lambda: rt.ses_list.find(change.spelling))
    if change.ses_state is SesListState.PENDING_PUT:
        return _put(rt, change, found, pause)
    if found is None:
        return SesListState.DELETED
    with rt.db.transaction() as tx:
        covered = ses_list.is_covered(tx, change.address_hash, found)
    if not covered:
        # SES has learned something since the release, which no person has lifted.
        _take_in(rt, change, found)
        return SesListState.KEPT
    ask(rt, pause, lambda: rt.ses_list.delete(change.spelling))
    return SesListState.DELETED


def _put(rt: Runtime, change: Change, found: Listed | None, pause: Pause) -> SesListState:
    if found is not None:
        # Never put over what SES found out by itself: that may be a complaint.
        _take_in(rt, change, found)
        return SesListState.LISTED

    def put() -> SesListState:
        with rt.db.transaction() as tx:
            if not ses_changes.begin_put(tx, change.id):
                return SesListState.UNKNOWN  # released meanwhile, which is carried out next
        rt.ses_list.put(change.spelling, change.reason)
        return SesListState.LISTED

    return ask(rt, pause, put)


def _take_in(rt: Runtime, change: Change, found: Listed) -> None:
    rt.db.transact(lambda tx: ses_list.take_in(tx, {change.address_hash: (rt.new_id(), found)}))


def _failed(rt: Runtime, change: Change, problem: str) -> None:
    again = min(RETRY_BASE_SECONDS * 2.0 ** min(change.ses_tries, 10), RETRY_CAP_SECONDS)
    with rt.db.transaction() as tx:
        ses_changes.failed(tx, change, error=problem, again_in_seconds=again)
    journal.stage("suppression.not_at_ses", suppression_id=change.id, why=problem)
