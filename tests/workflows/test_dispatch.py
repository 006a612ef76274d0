"""Claim, call, record: with a crash between any two, late results, races, and doubt."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from mail_service.domain.outcomes import (
    Accepted,
    Deferred,
    Held,
    HoldScope,
    Outcome,
    Pace,
    Refused,
    Released,
    Unknown,
)
from mail_service.ports import OutgoingEmail
from mail_service.runtime import Runtime
from mail_service.store import claims, outbox
from mail_service.workflows import dispatch, holding, operate, reconcile, record
from mail_service.workflows.dispatch import Ended
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.steps import bring, call, look, send_all, ses_event, sign_up, take_one, write_email


def refused() -> Refused:
    return Refused(error_class="rejected", error_code="MessageRejected")


def deferred(pace: Pace = Pace.USUAL) -> Deferred:
    return Deferred(error_class="unexpected_answer", error_code="SomethingNew", pace=pace)


def held() -> Held:
    return Held(scope=HoldScope.ACCOUNT, error_class="sending_paused", error_code="MessageRejected")


def unknown() -> Unknown:
    return Unknown(error_class="read_timeout", error_code="ReadTimeoutError")


@pytest.mark.parametrize(
    ("outcome", "email_state", "attempt_state"),
    [
        (Accepted(provider_message_id="m-1"), "submitted", "accepted"),
        (refused(), "failed", "permanent"),
        (deferred(), "pending", "retryable"),
        (deferred(Pace.SLOW), "pending", "retryable"),
        (deferred(Pace.THROTTLED), "pending", "retryable"),
        (held(), "pending", "held"),
        (unknown(), "ambiguous", "unknown"),
    ],
)
def test_each_outcome_has_its_end(
    rt: Runtime, mailer: ScriptedMailer, outcome: Outcome, email_state: str, attempt_state: str
) -> None:
    email = sign_up(rt)
    mailer.answers(outcome)
    send_all(rt)
    seen = look(rt, email)
    assert (seen.email.state, seen.attempts[0].state) == (email_state, attempt_state)
    assert seen.attempts[0].finished_at is not None


def test_the_attempt_is_committed_before_the_call_and_no_transaction_is_open_during_it(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    sign_up(rt)
    looked: list[tuple[str, int]] = []

    def look_from_outside(email: OutgoingEmail) -> Outcome:
        state = sql.one(
            "SELECT state::text FROM mail_service.send_attempts WHERE request_tag = %s",
            email.request_tag,
        )
        open_now = sql.one(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND application_name = 'tests' AND state LIKE 'idle in transaction%%'"
        )
        looked.append((state, open_now))
        return Accepted(provider_message_id="m-1")

    mailer.answers(look_from_outside)
    send_all(rt)
    assert looked == [("started", 0)]


def test_the_call_bears_the_attempts_tag_and_each_call_another(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    email = sign_up(rt)
    mailer.answers(deferred())
    send_all(rt)
    sql.advance(3600)
    send_all(rt)
    tags = [attempt.request_tag for attempt in look(rt, email).attempts]
    assert [call.request_tag for call in mailer.calls] == tags
    assert len(set(tags)) == 2


def test_fifty_emails_and_four_racing_claimers_have_one_winner_each(
    runtime_of: Callable[..., Runtime], sql: Sql
) -> None:
    rt = runtime_of()
    for n in range(50):
        write_email(rt, f"order-{n}", to=(f"a{n}@example.com",))

    def claim_until_empty(_: int) -> list[str]:
        mine: list[str] = []
        while claims := dispatch.take(rt, 3):
            mine += [str(c.row.email_id) for c in claims]
        return mine

    with ThreadPoolExecutor(4) as pool:
        won = [email for part in pool.map(claim_until_empty, range(4)) for email in part]
    assert len(won) == len(set(won)) == 50
    assert sql.one("SELECT count(*) FROM mail_service.send_attempts") == 50


def test_a_crash_after_the_claim_leads_to_doubt_never_to_a_new_call(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    email = sign_up(rt)
    take_one(rt)
    sql.advance(rt.settings.lease_seconds + 1)
    assert dispatch.take(rt, 5) == []
    reconcile.sweep(rt)
    seen = look(rt, email)
    assert (seen.email.state, seen.email.reason, seen.attempts[0].state) == (
        "ambiguous",
        "lease_expired",
        "unknown",
    )
    sql.advance(7 * 24 * 3600)
    reconcile.sweep(rt)
    assert dispatch.take(rt, 5) == []
    assert mailer.calls == []


def test_a_crash_after_the_call_leads_to_doubt_and_the_send_event_resolves_it(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    email = sign_up(rt)
    call(rt, take_one(rt))
    sql.advance(rt.settings.lease_seconds + 1)
    reconcile.sweep(rt)
    assert look(rt, email).email.state == "ambiguous"
    bring(rt, ses_event("Send", tag=mailer.calls[0].request_tag, message_id="message-1"))
    seen = look(rt, email)
    assert (seen.email.state, seen.attempts[0].state, seen.attempts[0].resolved_by) == (
        "submitted",
        "accepted",
        "event",
    )
    assert seen.attempts[0].provider_message_id == "message-1"


def test_a_crash_inside_the_claim_leaves_the_email_pending(
    rt: Runtime, sql: Sql, database_url: str
) -> None:
    email = sign_up(rt)

    def claim_and_die() -> None:
        with rt.db.transaction() as tx:
            claims.claim(tx, attempt_ids=[rt.new_id()], reserved=1, terms=holding.terms(rt))
            raise RuntimeError("the process died before the commit")

    with pytest.raises(RuntimeError, match="died"):
        claim_and_die()
    assert look(rt, email).email.state == "pending"
    assert not look(rt, email).attempts


def test_a_lease_runs_by_the_databases_time(rt: Runtime, sql: Sql) -> None:
    sign_up(rt)
    take_one(rt)
    lease = sql.one(
        "SELECT extract(epoch FROM o.lease_expires_at - a.started_at)::float"
        " FROM mail_service.email_outbox o JOIN mail_service.send_attempts a ON a.email_id = o.id"
    )
    assert lease == rt.settings.lease_seconds
    sql.advance(rt.settings.lease_seconds - 5)
    assert reconcile.sweep(rt) is not None
    assert sql.one("SELECT state::text FROM mail_service.email_outbox") == "sending"


def test_a_late_workers_acceptance_submits_an_email_in_doubt(rt: Runtime, sql: Sql) -> None:
    email = sign_up(rt)
    late = call(rt, take_one(rt))
    sql.advance(rt.settings.lease_seconds + 1)
    reconcile.sweep(rt)
    assert record.results(rt, [late]) == []
    seen = look(rt, email)
    assert (seen.email.state, seen.attempts[0].provider_message_id) == ("submitted", "message-1")


@pytest.mark.parametrize(
    ("outcome", "state"),
    [(deferred(), "pending"), (held(), "pending"), (refused(), "failed"), (unknown(), "ambiguous")],
)
def test_a_late_proof_of_refusal_takes_an_email_out_of_doubt(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql, outcome: Outcome, state: str
) -> None:
    email = sign_up(rt)
    mailer.answers(outcome)
    late = call(rt, take_one(rt))
    sql.advance(rt.settings.lease_seconds + 1)
    reconcile.sweep(rt)
    record.results(rt, [late])
    assert look(rt, email).email.state == state
    assert look(rt, email).email.epoch == 0


def test_a_stale_token_moves_nothing_and_its_fact_is_kept(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    """The first worker's lease ran out, a late refusal made the email pending, a second one holds it."""
    email = sign_up(rt)
    mailer.answers(deferred(), unknown())
    first = call(rt, take_one(rt))
    sql.advance(rt.settings.lease_seconds + 1)
    reconcile.sweep(rt)
    record.results(rt, [first])
    sql.advance(3600)
    second = take_one(rt)
    stale = Ended(row=first.row, result=refused())
    record.results(rt, [stale])
    seen = look(rt, email)
    assert seen.email.state == "sending"
    assert seen.attempts[0].state == "retryable"
    assert sql.one("SELECT lease_token FROM mail_service.email_outbox") == second.row.attempt_id


def test_a_late_acceptance_while_another_call_runs_counts_at_its_finalise(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    """A known duplicate stays visible: both attempts tell what they know, the email is submitted."""
    email = sign_up(rt)
    mailer.answers(deferred(), refused())
    first = call(rt, take_one(rt))
    record.results(rt, [first])
    sql.advance(3600)
    second = call(rt, take_one(rt))
    record.results(rt, [Ended(row=first.row, result=Accepted(provider_message_id="m-late"))])
    assert look(rt, email).email.state == "sending"
    record.results(rt, [second])
    seen = look(rt, email)
    assert seen.email.state == "submitted"
    assert [a.state for a in seen.attempts] == ["accepted", "permanent"]


def test_recording_twice_changes_nothing_the_second_time(rt: Runtime, sql: Sql) -> None:
    sign_up(rt)
    ended = call(rt, take_one(rt))
    record.results(rt, [ended])
    before = sql.dump()
    record.results(rt, [ended])
    assert sql.dump() == before


def test_an_event_that_came_while_the_call_ran_beats_its_unknown_outcome(
    rt: Runtime, mailer: ScriptedMailer
) -> None:
    email = sign_up(rt)
    claim = take_one(rt)
    bring(rt, ses_event("Send", tag=str(claim.row.attempt_id), message_id="m-9"))
    assert look(rt, email).email.state == "sending"
    mailer.answers(unknown())
    record.results(rt, [call(rt, claim)])
    seen = look(rt, email)
    assert (seen.email.state, seen.attempts[0].state, seen.attempts[0].provider_message_id) == (
        "submitted",
        "accepted",
        "m-9",
    )


def test_a_saved_message_id_never_changes(rt: Runtime, mailer: ScriptedMailer) -> None:
    email = sign_up(rt)
    claim = take_one(rt)
    bring(rt, ses_event("Send", tag=str(claim.row.attempt_id), message_id="m-9"))
    mailer.answers(Accepted(provider_message_id="m-other"))
    record.results(rt, [call(rt, claim)])
    assert look(rt, email).attempts[0].provider_message_id == "m-9"


def test_a_message_id_of_another_call_is_not_saved_twice(
    rt: Runtime, mailer: ScriptedMailer
) -> None:
    emails = [write_email(rt, f"order-{n}") for n in range(3)]
    mailer.answers(*(Accepted(provider_message_id="m-same") for _ in range(3)))
    for n in (1, 2):
        claims = dispatch.take(rt, n)
        assert record.results(rt, [call(rt, c) for c in claims]) == []
    assert {look(rt, e).email.state for e in emails} == {"submitted"}
    ids = [look(rt, e).attempts[0].provider_message_id for e in emails]
    assert sorted(ids, key=str) == sorted(["m-same", None, None], key=str)


def test_a_released_lease_is_pending_again_at_once_and_uses_up_nothing(
    rt: Runtime, sql: Sql
) -> None:
    email = sign_up(rt)
    claim = take_one(rt)
    record.results(rt, [Ended(row=claim.row, result=Released())])
    seen = look(rt, email)
    assert (seen.email.state, seen.attempts[0].state) == ("pending", "released")
    assert sql.one("SELECT refusals FROM mail_service.email_outbox") == 0
    assert take_one(rt).row.number == 2


def test_a_row_that_somebody_holds_comes_back_and_the_others_are_recorded(
    rt: Runtime, sql: Sql
) -> None:
    held_back, other = write_email(rt, "order-1"), write_email(rt, "order-2")
    ended = [call(rt, claim) for claim in dispatch.take(rt, 5)]
    with rt.db.transaction() as tx:
        assert outbox.lock(tx, held_back.email.id)
        left = record.results(rt, ended)
    assert [e.row.email_id for e in left] == [held_back.email.id]
    assert look(rt, other).email.state == "submitted"
    assert record.results(rt, left) == []


def test_refusals_wait_longer_each_time_and_end_at_max_attempts(
    runtime_of: Callable[..., Runtime], mailer: ScriptedMailer, sql: Sql
) -> None:
    rt = runtime_of(MAX_ATTEMPTS="4", RETRY_BASE_SECONDS="30", RETRY_CAP_SECONDS="100")
    email = sign_up(rt)
    mailer.answers(*(deferred() for _ in range(4)))
    waits: list[float] = []
    for _ in range(4):
        send_all(rt)
        if look(rt, email).email.state == "pending":
            waits.append(
                sql.one(
                    "SELECT extract(epoch FROM next_attempt_at - (SELECT max(finished_at)"
                    " FROM mail_service.send_attempts))::float FROM mail_service.email_outbox"
                )
            )
            sql.advance(waits[-1] - 1)
            assert dispatch.take(rt, 5) == []
            sql.advance(2)
    assert waits == [30, 60, 100]
    seen = look(rt, email)
    assert (seen.email.state, seen.email.reason, len(seen.attempts)) == (
        "failed",
        "attempts_used_up",
        4,
    )


def test_throttling_uses_up_no_attempt(
    runtime_of: Callable[..., Runtime], mailer: ScriptedMailer, sql: Sql
) -> None:
    rt = runtime_of(MAX_ATTEMPTS="1")
    email = sign_up(rt)
    mailer.answers(*(deferred(Pace.THROTTLED) for _ in range(5)))
    for _ in range(5):
        send_all(rt)
        assert look(rt, email).email.state == "pending"
        sql.advance(3600)
    send_all(rt)
    assert look(rt, email).email.state == "submitted"


def test_no_call_is_made_past_the_maximum_age(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    email = sign_up(rt)
    sql.advance(rt.settings.max_age_seconds + 1)
    assert dispatch.take(rt, 5) == []
    assert (look(rt, email).email.state, look(rt, email).email.reason) == (
        "failed",
        "maximum_age_passed",
    )
    assert mailer.calls == []


def test_no_call_is_made_past_not_after(rt: Runtime, sql: Sql) -> None:
    email = sign_up(rt)
    sql(
        "UPDATE mail_service.email_outbox SET not_after = mail_service.clock() + interval '1 minute'"
    )
    sql.advance(61)
    assert dispatch.take(rt, 5) == []
    assert (look(rt, email).email.state, look(rt, email).email.reason) == (
        "failed",
        "not_after_passed",
    )


def test_a_suppressed_recipient_is_never_called(rt: Runtime, mailer: ScriptedMailer) -> None:
    operate.suppress(rt, address="ADA@example.com", note=None, by="test")
    email = sign_up(rt, "ada@Example.com")
    assert send_all(rt) == []
    seen = look(rt, email)
    assert (seen.email.state, seen.recipients[0].status) == ("suppressed", "suppressed")
    assert not seen.attempts
    assert mailer.calls == []


def test_a_suppressed_recipient_among_others_is_left_out_of_the_call(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    operate.suppress(rt, address="bob@example.com", note=None, by="test")
    email = write_email(rt, to=("ada@example.com", "bob@example.com", "eve@example.com"))
    send_all(rt)
    assert mailer.calls[0].to == ("ada@example.com", "eve@example.com")
    assert [r.status for r in look(rt, email).recipients] == [
        "submitted",
        "suppressed",
        "submitted",
    ]
    assert sql.one("SELECT count(*) FROM mail_service.attempt_recipients") == 2


def test_a_suppression_after_the_claim_stops_a_call_that_waited_over_a_second(
    rt: Runtime, sql: Sql
) -> None:
    write_email(rt, "order-1", to=("ada@example.com",))
    write_email(rt, "order-2", to=("bob@example.com",))
    claims = dispatch.take(rt, 5)
    operate.suppress(rt, address="ada@example.com", note=None, by="test")
    fresh, back = dispatch.recheck(rt, claims)
    assert (len(fresh), back) == (2, [])
    waited = [replace(c, checked=c.checked - 1.1) for c in claims]
    fresh, back = dispatch.recheck(rt, waited)
    assert [c.row.recipients[0][1] for c in fresh] == ["bob@example.com"]
    assert [e.result for e in back] == [Released()]
    record.results(rt, back)
    assert dispatch.take(rt, 5) == []
    assert sql.one("SELECT count(*) FROM mail_service.email_outbox WHERE state = 'suppressed'") == 1


def test_a_claim_with_less_than_a_whole_calls_time_left_is_given_back(rt: Runtime) -> None:
    sign_up(rt)
    claim = take_one(rt)
    late = replace(
        claim, begun=claim.begun - (rt.settings.lease_seconds - rt.settings.call_seconds) - 0.1
    )
    assert dispatch.recheck(rt, [late]) == ([], [Ended(row=claim.row, result=Released())])


@pytest.mark.parametrize("stopped_for", [1.1, 1000])
def test_a_process_stopped_between_look_and_call_makes_no_call(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql, stopped_for: float
) -> None:
    email = sign_up(rt)
    claim = take_one(rt)
    stopped = replace(claim, begun=claim.begun - stopped_for, checked=claim.checked - stopped_for)
    if stopped_for > rt.settings.lease_seconds:
        sql.advance(stopped_for)
        reconcile.sweep(rt)
        assert look(rt, email).email.state == "ambiguous"
    record.results(rt, [call(rt, stopped)])
    assert (look(rt, email).email.state, mailer.calls) == ("pending", [])


def test_a_template_that_changed_holds_its_emails(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    email = sign_up(rt)
    sql("UPDATE mail_service.email_outbox SET template_checksum = 'another'")
    send_all(rt)
    seen = look(rt, email)
    assert (seen.email.state, seen.attempts[0].state, seen.attempts[0].error_class) == (
        "pending",
        "held",
        "template_changed",
    )
    assert mailer.calls == []


def test_the_journal_has_one_row_per_move_with_its_attempt(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    sign_up(rt)
    mailer.answers(deferred(), unknown())
    send_all(rt)
    sql.advance(3600)
    (claim,) = send_all(rt)
    bring(rt, ses_event("Send", tag=str(claim.row.attempt_id)))
    moves = sql(
        "SELECT from_state::text, to_state::text, actor, attempt_id"
        " FROM mail_service.email_transitions ORDER BY id"
    )
    assert [(m["from_state"], m["to_state"], m["actor"]) for m in moves] == [
        (None, "pending", "test"),
        ("pending", "sending", "worker"),
        ("sending", "pending", "worker"),
        ("pending", "sending", "worker"),
        ("sending", "ambiguous", "worker"),
        ("ambiguous", "submitted", "event"),
    ]
    assert moves[1]["attempt_id"] == moves[2]["attempt_id"] != moves[3]["attempt_id"]


def test_the_order_of_recipients_is_kept_and_one_address_twice_stays_two(
    rt: Runtime, mailer: ScriptedMailer
) -> None:
    to = ("zoe@example.com", "ada@example.com", "zoe@example.com")
    email = write_email(rt, to=to)
    send_all(rt)
    assert mailer.calls[0].to == to
    bring(
        rt, ses_event("Delivery", tag=mailer.calls[0].request_tag, recipients=("zoe@example.com",))
    )
    assert [r.status for r in look(rt, email).recipients] == ["delivered", "submitted", "delivered"]
