"""Every drawn edge is walked, and nothing that is walked is undrawn."""

from collections.abc import Callable

from mail_service.domain.deciding import Decision
from mail_service.domain.outcomes import Deferred, Outcome, Pace, Refused, Unknown
from mail_service.domain.states import TRANSITIONS
from mail_service.domain.suppression import ReleaseRule
from mail_service.runtime import Runtime
from mail_service.store.views import EmailView
from mail_service.workflows import decide, operate, reconcile, record
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.steps import bring, call, send_all, ses_event, take_one, write_email


def test_every_edge_that_was_seen_is_drawn_and_every_drawn_one_was_seen(
    runtime_of: Callable[..., Runtime], mailer: ScriptedMailer, sql: Sql
) -> None:
    rt = runtime_of(MAX_ATTEMPTS="1")
    refused, unknown = Refused(error_class="rejected"), Unknown(error_class="read_timeout")
    deferred = Deferred(error_class="unexpected_answer")

    def in_doubt_then(late: Outcome) -> None:
        mailer.answers(late)
        ended = call(rt, take_one(rt))
        sql.advance(rt.settings.lease_seconds + 1)
        reconcile.sweep(rt)
        record.results(rt, [ended])

    def requeue(email: EmailView) -> None:
        decide.requeue(rt, email.email.id, reason="mended", not_after=None, by="test")

    def cancel(email: EmailView) -> None:
        decide.cancel(rt, email.email.id, by="test")

    def suppress(email: EmailView) -> None:
        operate.suppress(rt, address="suppress@example.com", note=None, by="test")
        send_all(rt)

    write_email(rt, "accepted")
    send_all(rt)
    write_email(rt, "throttled, then late evidence while pending")
    mailer.answers(Deferred(error_class="throttled", pace=Pace.THROTTLED))
    (claim,) = send_all(rt)
    bring(rt, ses_event("Send", tag=str(claim.row.attempt_id), message_id="late-1"))
    write_email(rt, "refused, then evidence")
    mailer.answers(refused)
    (claim,) = send_all(rt)
    bring(rt, ses_event("Send", tag=str(claim.row.attempt_id), message_id="late-2"))
    write_email(rt, "unknown, then evidence")
    mailer.answers(unknown)
    (claim,) = send_all(rt)
    bring(rt, ses_event("Send", tag=str(claim.row.attempt_id), message_id="late-3"))
    write_email(rt, "in doubt, then refused")
    in_doubt_then(refused)
    write_email(rt, "in doubt, then throttled")
    in_doubt_then(Deferred(error_class="throttled", pace=Pace.THROTTLED))
    sql.advance(60)
    mailer.answers(deferred)
    send_all(rt)
    write_email(rt, "too old")
    sql.advance(rt.settings.max_age_seconds + 1)
    send_all(rt)
    row, _ = operate.suppress(rt, address="bob@example.com", note=None, by="test")
    suppressed = write_email(rt, "suppressed", to=("bob@example.com",))
    send_all(rt)
    operate.release(
        rt, row.id, rule=ReleaseRule.OPERATOR_ERROR, reason="typo", confirmed=False, by="test"
    )
    requeue(suppressed)
    send_all(rt)
    failed = write_email(rt, "failed, then requeued")
    mailer.answers(refused)
    send_all(rt)
    requeue(failed)
    send_all(rt)
    for key, end in (("cancelled", cancel), ("suppressed again", suppress)):
        doubtful = write_email(rt, key, to=(f"{end.__name__}@example.com",))
        mailer.answers(unknown)
        (claim,) = send_all(rt)
        sql.advance(rt.settings.lease_seconds + rt.settings.call_seconds)
        decide.resolve(
            rt,
            doubtful.email.id,
            decision=Decision.RESEND,
            reason="asked",
            attempt_id=claim.row.attempt_id,
            by="test",
        )
        end(doubtful)
        bring(rt, ses_event("Send", tag=str(claim.row.attempt_id), message_id=f"late-{key}"))

    seen = {
        (row["from_state"], row["to_state"])
        for row in sql(
            "SELECT from_state::text, to_state::text FROM mail_service.email_transitions"
            " WHERE from_state IS NOT NULL"
        )
    }
    drawn = {(a.value, b.value) for a, ends in TRANSITIONS.items() for b in ends}
    assert seen == drawn
