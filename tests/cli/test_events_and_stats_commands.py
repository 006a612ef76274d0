"""``mail-service events`` and ``stats``: what SES said, and every kind of trouble by itself."""

import pytest

from mail_service.domain.outcomes import Unknown
from mail_service.runtime import Runtime
from mail_service.workflows import reconcile
from tests import steps
from tests.cli.conftest import Cli
from tests.fakes import ScriptedMailer


def test_events_are_listed_by_how_far_they_were_understood(cli: Cli, rt: Runtime) -> None:
    steps.sign_up(rt)
    (claim,) = steps.send_all(rt)
    steps.bring(rt, steps.ses_event("Send", tag=str(claim.row.attempt_id)))
    steps.bring(rt, steps.ses_event("Send", message_id="nobody-knows"))
    (matched,) = cli("events", "list", "--status", "matched", "--json").json["items"]
    assert matched["attempt_id"] == str(claim.row.attempt_id)
    (unmatched,) = cli("events", "list", "--status", "unmatched", "--json").json["items"]
    assert unmatched["provider_message_id"] == "nobody-knows"
    shown = cli("events", "list").out
    assert matched["id"] in shown
    assert unmatched["id"] in shown


def test_stats_tell_each_kind_of_trouble_apart(
    cli: Cli, rt: Runtime, mailer: ScriptedMailer
) -> None:
    mailer.answers(Unknown(error_class="read_timeout"))
    steps.sign_up(rt, "doubt@example.com")
    steps.send_all(rt)
    steps.sign_up(rt, "waiting@example.com")
    cli("suppressions", "add", "dave@example.com")
    reconcile.sweep(rt)
    figures = cli("stats", "--json").json
    assert figures["queue"]["pending_due"] == 1
    assert figures["queue"]["ambiguous"] == 1
    assert figures["suppressions"] == [{"label": "manual", "count": 1}]
    lines = {line.strip() for line in cli("stats").out.splitlines()}
    names = (
        *("pending", "sending", "expired leases", "ambiguous", "failed", "suppressed"),
        *("unmatched events", "accepted without any event", "active suppressions"),
        *("calls of the last hour, unknown", "commit to call", "event lag"),
        *("webhook rejections", "broker queue", "last sweep"),
    )
    for name in names:
        assert any(line.startswith(name) for line in lines), name


def test_rates_of_bounces_and_complaints_are_those_that_aws_looks_at(cli: Cli, rt: Runtime) -> None:
    assert cli("stats", "--json").json["reputation"]["bounce_rate"] is None
    told = {
        "hard": ("Bounce", {}),
        "soft": ("Bounce", {"bounceType": "Transient"}),
        "listed": ("Bounce", {"bounceSubType": "OnAccountSuppressionList"}),
        "angry": ("Complaint", {"complaintFeedbackType": "abuse"}),
        "unsaid": ("Complaint", {}),
        "glad": ("Complaint", {"complaintFeedbackType": "not-spam"}),
        "forged": ("Complaint", {"complaintFeedbackType": "auth-failure"}),
        "fine": ("Delivery", {}),
    }
    for name, (kind, detail) in told.items():
        to = (
            (f"{name}@example.com", "other@example.com")
            if name == "fine"
            else (f"{name}@example.com",)
        )
        steps.write_email(rt, name, to)
        (claim,) = steps.send_all(rt)
        tag = str(claim.row.attempt_id)
        steps.bring(
            rt, steps.ses_event(kind, tag=tag, message_id=None, recipients=to[:1], **detail)
        )
    seen = cli("stats", "--json").json["reputation"]
    assert seen == {
        "recipients": 9,
        "bounce_rate": pytest.approx(1 / 9),
        "complaint_rate": pytest.approx(2 / 9),
    }
    assert "11.11 % of 9 (AWS reviews from 5 %)" in cli("stats").out


def test_stats_of_an_idle_house_ask_whether_a_worker_runs(cli: Cli) -> None:
    assert "never: is a worker running?" in cli("stats").out
