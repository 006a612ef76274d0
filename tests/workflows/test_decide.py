"""Decisions about doubt: one row, one effect, never while the old call may still run."""

import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from mail_service.domain.deciding import Decision
from mail_service.domain.outcomes import (
    Accepted,
    Deferred,
    Held,
    HoldScope,
    Outcome,
    Pace,
    Refused,
    Released,
    Result,
    Unknown,
)
from mail_service.errors import CommitUnknown, Conflict, InvalidFields, NotFound
from mail_service.ports import OutgoingEmail
from mail_service.runtime import Runtime
from mail_service.store.database import Transactions
from mail_service.store.session import Session
from mail_service.store.views import EmailView
from mail_service.workflows import decide, dispatch, operate, reconcile, record
from mail_service.workflows.dispatch import Ended
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.steps import bring, call, look, send_all, ses_event, sign_up, take_one, write_email


@pytest.fixture
def doubtful(rt: Runtime, mailer: ScriptedMailer) -> EmailView:
    """An email whose call timed out."""
    return in_doubt(rt, mailer)


def in_doubt(
    rt: Runtime, mailer: ScriptedMailer, key: str = "order-1", **request: Any
) -> EmailView:
    email = write_email(rt, key, **request)
    mailer.answers(Unknown(error_class="read_timeout"))
    send_all(rt)
    seen = look(rt, email)
    assert seen.email.state == "ambiguous"
    return seen


def wait_out_the_call(rt: Runtime, sql: Sql) -> None:
    sql.advance(rt.settings.lease_seconds + rt.settings.call_seconds)


def resolve(rt: Runtime, email: EmailView, decision: Decision, **changes: Any) -> EmailView:
    asked = {
        "reason": "asked the customer",
        "attempt_id": email.attempts[-1].id,
        "by": "key:1",
    } | changes
    return decide.resolve(rt, email.email.id, decision=decision, **asked)


def test_accepted_submits_and_says_who_said_so(rt: Runtime, doubtful: EmailView, sql: Sql) -> None:
    done = resolve(rt, doubtful, Decision.ACCEPTED)
    assert (done.email.state, done.email.epoch, done.recipients[0].status) == (
        "submitted",
        0,
        "submitted",
    )
    assert (done.attempts[0].state, done.attempts[0].resolved_by) == ("unknown", "operator")
    (row,) = sql(
        "SELECT decision, decided_by, reason, epoch_before, epoch_after FROM mail_service.email_decisions"
    )
    assert row == {
        "decision": "accepted",
        "decided_by": "key:1",
        "reason": "asked the customer",
        "epoch_before": 0,
        "epoch_after": 0,
    }


def test_abandon_fails(rt: Runtime, doubtful: EmailView) -> None:
    done = resolve(rt, doubtful, Decision.ABANDON)
    assert (done.email.state, done.email.reason) == ("failed", "abandoned")


def test_resend_opens_a_new_epoch_once_the_old_call_cannot_run_any_more(
    rt: Runtime, mailer: ScriptedMailer, doubtful: EmailView, sql: Sql
) -> None:
    with pytest.raises(Conflict, match="still be running"):
        resolve(rt, doubtful, Decision.RESEND)
    assert sql.one("SELECT count(*) FROM mail_service.email_decisions") == 0
    wait_out_the_call(rt, sql)
    done = resolve(rt, doubtful, Decision.RESEND)
    assert (done.email.state, done.email.epoch) == ("pending", 1)
    send_all(rt)
    seen = look(rt, doubtful)
    assert (seen.email.state, [a.epoch for a in seen.attempts]) == ("submitted", [0, 1])
    assert len(mailer.calls) == 2


def test_a_new_epoch_has_all_its_tries_and_its_whole_age_before_it(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    email = in_doubt(rt, mailer)
    sql("UPDATE mail_service.email_outbox SET refusals = 7")
    sql.advance(rt.settings.max_age_seconds + 1)
    resolve(rt, email, Decision.RESEND)
    assert sql("SELECT refusals, deferrals FROM mail_service.email_outbox") == [
        {"refusals": 0, "deferrals": 0}
    ]
    send_all(rt)
    assert look(rt, email).email.state == "submitted"


def test_what_would_only_fail_past_its_not_after_is_not_sent_again(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    deadline = sql.one("SELECT mail_service.clock()") + timedelta(hours=1)
    email = in_doubt(rt, mailer, not_after=deadline)
    sql.advance(3600)
    with pytest.raises(Conflict, match="abandon") as refused:
        resolve(rt, email, Decision.RESEND)
    assert deadline.isoformat(timespec="seconds")[:19] in str(refused.value)
    assert look(rt, email).email.state == "ambiguous"
    assert sql.one("SELECT count(*) FROM mail_service.email_decisions") == 0
    # What the refusal says to do leads to an email that goes out.
    assert resolve(rt, email, Decision.ABANDON).email.state == "failed"
    later = sql.one("SELECT mail_service.clock()") + timedelta(hours=1)
    decide.requeue(rt, email.email.id, reason="still wanted", not_after=later, by="x")
    send_all(rt)
    assert look(rt, email).email.state == "submitted"


@pytest.mark.parametrize("decision", list(Decision))
def test_a_stale_page_decides_nothing(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql, decision: Decision
) -> None:
    old_page = in_doubt(rt, mailer)
    wait_out_the_call(rt, sql)
    resolve(rt, old_page, Decision.RESEND)
    mailer.answers(Unknown(error_class="read_timeout"))
    send_all(rt)
    wait_out_the_call(rt, sql)
    with pytest.raises(Conflict, match="not the newest"):
        resolve(rt, old_page, decision)
    assert look(rt, old_page).email.state == "ambiguous"


def test_of_two_operators_at_once_one_decides(
    runtime_of: Callable[..., Runtime], mailer: ScriptedMailer, sql: Sql
) -> None:
    rt = runtime_of()
    email = in_doubt(rt, mailer)
    wait_out_the_call(rt, sql)
    met = threading.Barrier(2)

    def act(decision: Decision) -> bool:
        met.wait(5)
        try:
            resolve(rt, email, decision)
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(act, [Decision.RESEND, Decision.ABANDON])) == 1
    assert sql.one("SELECT count(*) FROM mail_service.email_decisions") == 1
    assert sql.one("SELECT count(*) FROM mail_service.email_transitions WHERE actor = 'key:1'") == 1


def test_evidence_that_comes_after_a_new_epoch_opened_still_wins(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    email = in_doubt(rt, mailer)
    wait_out_the_call(rt, sql)
    resolve(rt, email, Decision.RESEND)
    bring(rt, ses_event("Send", tag=email.attempts[0].request_tag, message_id="m-late"))
    assert look(rt, email).email.state == "submitted"
    assert dispatch.take(rt, 5) == []
    assert len(mailer.calls) == 1


def test_evidence_for_the_old_epoch_while_the_new_call_runs_submits_at_its_finalise(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    email = in_doubt(rt, mailer)
    wait_out_the_call(rt, sql)
    resolve(rt, email, Decision.RESEND)
    mailer.answers(Refused(error_class="rejected"))
    running = call(rt, take_one(rt))
    bring(rt, ses_event("Send", tag=email.attempts[0].request_tag, message_id="m-late"))
    assert look(rt, email).email.state == "sending"
    record.results(rt, [running])
    seen = look(rt, email)
    assert (seen.email.state, [a.state for a in seen.attempts]) == (
        "submitted",
        ["accepted", "permanent"],
    )


def test_a_decision_needs_doubt_a_reason_and_an_email(rt: Runtime, doubtful: EmailView) -> None:
    with pytest.raises(InvalidFields):
        resolve(rt, doubtful, Decision.ABANDON, reason=" ")
    with pytest.raises(NotFound):
        decide.resolve(
            rt, rt.new_id(), decision=Decision.ABANDON, reason="x", attempt_id=rt.new_id(), by="x"
        )
    resolve(rt, doubtful, Decision.ABANDON)
    with pytest.raises(Conflict, match="not ambiguous"):
        resolve(rt, doubtful, Decision.ACCEPTED)


def test_a_failed_email_is_requeued_in_a_new_epoch(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    email = write_email(rt)
    mailer.answers(Refused(error_class="rejected"))
    send_all(rt)
    done = decide.requeue(rt, email.email.id, reason="template mended", not_after=None, by="key:1")
    assert (done.email.state, done.email.epoch) == ("pending", 1)
    send_all(rt)
    assert look(rt, email).email.state == "submitted"


def test_a_requeue_on_a_stale_page_is_refused(rt: Runtime, mailer: ScriptedMailer) -> None:
    email = write_email(rt)
    mailer.answers(*(Refused(error_class="rejected") for _ in range(2)))
    send_all(rt)
    old = look(rt, email)
    page = decide.Seen(epoch=0, attempt_id=old.attempts[-1].id)
    decide.requeue(rt, email.email.id, reason="a", not_after=None, by="x", seen=page)
    send_all(rt)
    for stale in (decide.Seen(epoch=0), decide.Seen(attempt_id=old.attempts[-1].id)):
        with pytest.raises(Conflict, match="decide anew"):
            decide.requeue(rt, email.email.id, reason="b", not_after=None, by="y", seen=stale)
    assert look(rt, email).email.epoch == 1


def test_a_suppressed_email_is_requeued_after_a_release(rt: Runtime, sql: Sql) -> None:
    from mail_service.domain.suppression import ReleaseRule

    row, _ = operate.suppress(rt, address="ada@example.com", note=None, by="test")
    email = write_email(rt)
    dispatch.take(rt, 5)
    operate.release(
        rt, row.id, rule=ReleaseRule.OPERATOR_ERROR, reason="typo", confirmed=False, by="test"
    )
    decide.requeue(rt, email.email.id, reason="released", not_after=None, by="key:1")
    send_all(rt)
    seen = look(rt, email)
    assert (seen.email.state, seen.recipients[0].status) == ("submitted", "submitted")


def test_an_email_past_its_time_needs_a_new_one_to_be_requeued(rt: Runtime, sql: Sql) -> None:
    with rt.db.transaction() as tx:
        soon = tx.now + timedelta(seconds=60)
    email = write_email(rt, not_after=soon)
    sql.advance(61)
    assert dispatch.take(rt, 5) == []
    assert look(rt, email).email.reason == "not_after_passed"
    with pytest.raises(Conflict, match="give a new one"):
        decide.requeue(rt, email.email.id, reason="late", not_after=None, by="x")
    with pytest.raises(InvalidFields):
        decide.requeue(rt, email.email.id, reason="late", not_after=soon, by="x")
    decide.requeue(rt, email.email.id, reason="late", not_after=soon + timedelta(hours=1), by="x")
    send_all(rt)
    assert look(rt, email).email.state == "submitted"


def test_an_abandoned_email_is_not_requeued_while_its_call_may_run(rt: Runtime, sql: Sql) -> None:
    email = sign_up(rt)
    take_one(rt)
    sql.advance(rt.settings.lease_seconds + 1)
    reconcile.sweep(rt)
    resolve(rt, look(rt, email), Decision.ABANDON)
    with pytest.raises(Conflict, match="still be running"):
        decide.requeue(rt, email.email.id, reason="after all", not_after=None, by="x")
    sql.advance(rt.settings.call_seconds)
    assert (
        decide.requeue(rt, email.email.id, reason="after all", not_after=None, by="x").email.epoch
        == 1
    )


def test_only_what_is_pending_is_cancelled(rt: Runtime, sql: Sql) -> None:
    email = write_email(rt)
    assert decide.cancel(rt, email.email.id, by="key:1").email.state == "cancelled"
    assert dispatch.take(rt, 5) == []
    with pytest.raises(Conflict):
        decide.cancel(rt, email.email.id, by="key:1")


def test_late_evidence_submits_a_cancelled_email(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    email = in_doubt(rt, mailer)
    wait_out_the_call(rt, sql)
    resolve(rt, email, Decision.RESEND)
    decide.cancel(rt, email.email.id, by="key:1")
    bring(rt, ses_event("Send", tag=email.attempts[0].request_tag))
    assert look(rt, email).email.state == "submitted"


def quiet(rt: Runtime, sql: Sql) -> None:
    sql.advance(rt.settings.reconcile_after_seconds + 1)


def test_policy_sends_again_after_quiet_time_once(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    email = in_doubt(rt, mailer, on_ambiguous="resend")
    reconcile.sweep(rt)
    assert look(rt, email).email.state == "ambiguous"
    quiet(rt, sql)
    reconcile.sweep(rt)
    seen = look(rt, email)
    assert (seen.email.state, seen.email.epoch, seen.decisions[0].by) == ("pending", 1, "policy")
    mailer.answers(Unknown(error_class="read_timeout"))
    send_all(rt)
    quiet(rt, sql)
    reconcile.sweep(rt)
    seen = look(rt, email)
    assert (seen.email.state, seen.email.policy_note) == (
        "ambiguous",
        "policy has sent again as often as it may",
    )


def test_policy_never_touches_an_email_that_is_to_be_held(
    rt: Runtime, doubtful: EmailView, sql: Sql
) -> None:
    quiet(rt, sql)
    reconcile.sweep(rt)
    assert look(rt, doubtful).email.state == "ambiguous"


def test_policy_waits_without_a_configuration_set(
    runtime_of: Callable[..., Runtime], mailer: ScriptedMailer, sql: Sql
) -> None:
    rt = runtime_of(SES_CONFIGURATION_SET="")
    email = in_doubt(rt, mailer, on_ambiguous="resend")
    quiet(rt, sql)
    reconcile.sweep(rt)
    assert "no configuration set" in str(look(rt, email).email.policy_note)


def test_policy_waits_while_no_events_arrive(rt: Runtime, mailer: ScriptedMailer, sql: Sql) -> None:
    email = in_doubt(rt, mailer, on_ambiguous="resend")
    quiet(rt, sql)
    told = write_email(rt, "told")
    (claim,) = send_all(rt)
    sql.advance(60)
    reconcile.sweep(rt)
    assert look(rt, email).email.policy_note == "no events arrive at all"
    bring(rt, ses_event("Send", tag=str(claim.row.attempt_id)))
    reconcile.sweep(rt)
    assert (look(rt, email).email.state, look(rt, told).email.state) == ("pending", "submitted")


def test_policy_waits_past_not_after_and_maximum_age(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    with rt.db.transaction() as tx:
        soon = tx.now + timedelta(seconds=60)
    late = in_doubt(rt, mailer, on_ambiguous="resend", not_after=soon)
    old = in_doubt(rt, mailer, "order-2", on_ambiguous="resend")
    sql.advance(rt.settings.max_age_seconds + 1)
    reconcile.sweep(rt)
    assert look(rt, late).email.policy_note == "its not_after has passed"
    assert look(rt, old).email.policy_note == "its maximum age has passed"


def test_policy_stops_after_three_calls_that_never_ended(
    runtime_of: Callable[..., Runtime], mailer: ScriptedMailer, sql: Sql
) -> None:
    rt = runtime_of(MAX_POLICY_RESENDS="9")
    email = write_email(rt, on_ambiguous="resend")
    for _ in range(3):
        take_one(rt)
        quiet(rt, sql)
        reconcile.sweep(rt)
    seen = look(rt, email)
    assert (seen.email.state, len(seen.attempts)) == ("ambiguous", 3)
    assert seen.email.policy_note == "three calls of it never ended"


def test_a_late_answer_beats_the_policy_that_has_not_acted_yet(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    email = write_email(rt, on_ambiguous="resend")
    late = call(rt, take_one(rt))
    sql.advance(rt.settings.lease_seconds + 1)
    reconcile.sweep(rt)
    record.results(rt, [Ended(row=late.row, result=Accepted(provider_message_id="m-1"))])
    quiet(rt, sql)
    reconcile.sweep(rt)
    assert (look(rt, email).email.state, look(rt, email).email.epoch) == ("submitted", 0)


def test_a_claim_whose_commit_answer_was_lost_is_looked_up_by_its_own_tokens(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql, lost_commits: Callable[[], None]
) -> None:
    email = sign_up(rt)
    lost_commits()
    claim = take_one(rt)
    record.results(rt, [call(rt, claim)])
    assert look(rt, email).email.state == "submitted"
    assert len(mailer.calls) == 1


def test_an_intake_whose_commit_answer_was_lost_gives_what_it_wrote(
    rt: Runtime, sql: Sql, lost_commits: Callable[[], None]
) -> None:
    from mail_service.workflows import submit

    asked = submit.EmailRequest(dedup_key="order-1", template="welcome-v1", to=("ada@example.com",))
    write = submit.submit_email(rt, asked, actor="test")
    lost_commits()
    done = rt.db.transact(write, found=write.found)
    assert (done.created, sql.one("SELECT id FROM mail_service.email_outbox")) == (
        True,
        done.email.email.id,
    )


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (Refused(error_class="rejected"), "failed"),
        (Unknown(error_class="read_timeout"), "ambiguous"),
        (Deferred(pace=Pace.USUAL, error_class="internal_failure"), "pending"),
        (Deferred(pace=Pace.THROTTLED, error_class="throttled"), "pending"),
        (Held(scope=HoldScope.ACCOUNT, error_class="sending_paused"), "pending"),
        (Released(), "pending"),
    ],
    ids=lambda case: type(case).__name__,
)
def test_a_finalise_whose_commit_answer_was_lost_is_repeated_without_effect(
    rt: Runtime,
    mailer: ScriptedMailer,
    sql: Sql,
    lost_commits: Callable[[], None],
    outcome: Result,
    state: str,
) -> None:
    email = sign_up(rt)
    ended = Ended(row=take_one(rt).row, result=outcome)
    lost_commits()
    with pytest.raises(CommitUnknown):
        record.results(rt, [ended])
    before = sql.dump()
    assert record.results(rt, [ended]) == []
    assert sql.dump() == before
    assert look(rt, email).email.state == state


class LosesTheAnswer(Transactions):
    """A database that does what it is told and is gone before it says so."""

    def __init__(self, db: Transactions) -> None:
        self._db = db

    @contextmanager
    def connected(self) -> Generator[psycopg.Connection]:
        with self._db.connected() as connection:
            yield connection
            connection.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")


def test_an_acceptance_whose_answer_was_lost_is_recorded_again_without_effect(
    rt: Runtime, sql: Sql
) -> None:
    email = sign_up(rt)
    ended = call(rt, take_one(rt))
    with pytest.raises(CommitUnknown):
        record.results(replace(rt, db=LosesTheAnswer(rt.db)), [ended])
    before = sql.dump()
    assert look(rt, email).email.state == "submitted"
    assert record.results(rt, [ended]) == []
    assert sql.dump() == before


@pytest.fixture
def lost_commits(rt: Runtime, database_url: str) -> Callable[[], None]:
    """Loses the answer to the next commit on the way back, as a proxy between us and Postgres would."""

    def lose_the_next() -> None:
        with rt.db.transaction() as tx:
            assert tx.now  # so that a new connection has its first commit, of ours, behind it
        real = Session.commit

        def commit(self: Session) -> None:
            real(self)
            Session.commit = real  # type: ignore[method-assign]
            self.close()
            raise psycopg.OperationalError("server closed the connection unexpectedly")

        Session.commit = commit  # type: ignore[method-assign]

    return lose_the_next


def slow(outcome: Outcome) -> Callable[[OutgoingEmail], Outcome]:
    return lambda email: outcome
