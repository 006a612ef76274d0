"""Decisions, holds and times over HTTP."""

from dataclasses import replace
from typing import Any

import pytest

from mail_service.domain.outcomes import Held, HoldScope, Unknown
from tests import steps
from tests.api.conftest import EMAIL, NOBODY, Api
from tests.conftest import Sql
from tests.fakes import ScriptedMailer


@pytest.fixture
def doubtful(api: Api, mailer: ScriptedMailer) -> dict[str, Any]:
    """An email whose call timed out, as the API shows it."""
    email = api.post("/v1/emails", EMAIL).json
    mailer.answers(Unknown(error_class="read_timeout"))
    steps.send_all(replace(api.rt, mailer=mailer))
    shown = api.get(f"/v1/emails/{email['id']}").json
    assert shown["state"] == "ambiguous"
    return shown


def asked(email: dict[str, Any], decision: str) -> dict[str, str]:
    return {
        "decision": decision,
        "reason": "asked the customer",
        "attempt_id": email["attempts"][-1]["id"],
    }


@pytest.mark.parametrize(("decision", "state"), [("accepted", "submitted"), ("abandon", "failed")])
def test_a_doubt_is_resolved_once(api: Api, doubtful: dict[str, Any], decision: str, state: str):
    path = f"/v1/emails/{doubtful['id']}/resolve"
    done = api.post(path, asked(doubtful, decision))
    assert (done.status_code, done.json["state"]) == (200, state)
    (row,) = done.json["decisions"]
    assert row["by"].startswith("key:")
    assert (row["decision"], row["reason"]) == (decision, "asked the customer")
    assert api.post(path, asked(doubtful, decision)).status_code == 409


def test_a_resend_waits_until_the_old_call_cannot_run_and_wakes_the_drains(
    api: Api, doubtful: dict[str, Any], sql: Sql
):
    path = f"/v1/emails/{doubtful['id']}/resolve"
    assert api.post(path, asked(doubtful, "resend")).status_code == 409
    sql.advance(api.rt.settings.lease_seconds + api.rt.settings.call_seconds)
    before = len(api.nudges)
    done = api.post(path, asked(doubtful, "resend"))
    assert (done.json["state"], done.json["epoch"], len(api.nudges)) == ("pending", 1, before + 1)


def test_a_stale_page_is_refused(api: Api, doubtful: dict[str, Any]):
    answer = api.post(
        f"/v1/emails/{doubtful['id']}/resolve", asked(doubtful, "abandon") | {"attempt_id": NOBODY}
    )
    assert answer.status_code == 409


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"decision": "maybe"}, "decision"),
        ({"reason": ""}, "reason"),
        ({"attempt_id": "x"}, "attempt_id"),
        ({"x": 1}, "x"),
    ],
)
def test_an_unusable_decision_names_the_field(standing: Api, change: dict[str, Any], named: str):
    body = {"decision": "abandon", "reason": "r", "attempt_id": NOBODY} | change
    answer = standing.post(f"/v1/emails/{NOBODY}/resolve", body)
    assert answer.status_code == 422
    assert set(answer.json["errors"]) == {named}


def test_a_cancellation_ignores_no_field(api: Api):
    email = api.post("/v1/emails", EMAIL).json
    said = api.post(f"/v1/emails/{email['id']}/cancel", {"unless": "urgent"})
    assert (said.status_code, list(said.json["errors"])) == (422, ["unless"])
    assert api.get(f"/v1/emails/{email['id']}").json["state"] == "pending"
    assert api.post(f"/v1/emails/{email['id']}/cancel", {}).status_code == 200


def test_an_email_is_cancelled_while_it_is_pending(api: Api):
    email = api.post("/v1/emails", EMAIL).json
    done = api.post(f"/v1/emails/{email['id']}/cancel")
    assert (done.status_code, done.json["state"]) == (200, "cancelled")
    assert api.post(f"/v1/emails/{email['id']}/cancel").status_code == 409


def test_a_failed_email_is_requeued_in_a_new_epoch(api: Api, doubtful: dict[str, Any], sql: Sql):
    path = f"/v1/emails/{doubtful['id']}/requeue"
    assert api.post(path, {"reason": "too early"}).status_code == 409
    api.post(f"/v1/emails/{doubtful['id']}/resolve", asked(doubtful, "abandon"))
    done = api.post(path, {"reason": "after all"})
    assert (done.status_code, done.json["state"], done.json["epoch"]) == (200, "pending", 1)


def test_holds_are_listed_and_cleared(api: Api, mailer: ScriptedMailer):
    api.post("/v1/emails", EMAIL)
    mailer.answers(
        Held(scope=HoldScope.ACCOUNT, error_class="sending_paused", error_code="MessageRejected")
    )
    steps.send_all(replace(api.rt, mailer=mailer))
    (hold,) = api.get("/v1/holds").json["items"]
    assert (hold["scope"], hold["error_class"]) == ("account", "sending_paused")
    assert api.get("/v1/stats").json["holds"] == [{"label": "account", "count": 1}]
    cleared = api.post(f"/v1/holds/{hold['id']}/clear", {"reason": "AWS lifted it"})
    assert cleared.json["clear_reason"] == "AWS lifted it"
    assert api.get("/v1/holds").json == {"items": [], "next": None}
    assert api.post(f"/v1/holds/{hold['id']}/clear", {"reason": "again"}).status_code == 409


def test_times_and_priority_are_taken_and_shown(api: Api):
    body = EMAIL | {"send_at": "2999-01-01T00:00:00Z"}
    assert set(api.post("/v1/emails", body).json["errors"]) == {"send_at"}
    body = EMAIL | {"not_after": "2999-01-01T00:00:00Z", "priority": 9}
    shown = api.post("/v1/emails", body).json
    assert (shown["not_after"], shown["priority"]) == ("2999-01-01T00:00:00Z", 9)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"priority": 10}, "priority"),
        ({"priority": "5"}, "priority"),
        ({"priority": True}, "priority"),
        ({"not_after": "2001-01-01T00:00:00Z"}, "not_after"),
        ({"not_after": "soon"}, "not_after"),
        ({"send_at": 1}, "send_at"),
    ],
)
def test_an_unusable_time_or_priority_names_the_field(api: Api, change: dict[str, Any], named: str):
    answer = api.post("/v1/emails", EMAIL | change)
    assert answer.status_code == 422
    assert set(answer.json["errors"]) == {named}


# The first is what RFC 3339 calls a local time; the others are offsets that it does not know.
NO_OFFSET = ("", " ", "+02", "+0200", " +0200", "UTC", "[Europe/Berlin]")


@pytest.mark.parametrize("offset", NO_OFFSET)
@pytest.mark.parametrize("field", ["send_at", "not_after"])
def test_a_time_without_an_offset_of_rfc_3339_is_refused_never_taken_for_utc(
    standing: Api, field: str, offset: str
):
    answer = standing.post("/v1/emails", EMAIL | {field: f"2999-01-01T00:00:00{offset}"})
    assert answer.status_code == 422
    assert set(answer.json["errors"]) == {field}
    assert "2026-07-29T12:00:00Z" in answer.json["errors"][field]


@pytest.mark.parametrize("parameter", ["created_after", "created_before"])
def test_a_page_needs_times_with_an_offset_too(standing: Api, parameter: str):
    for time, status in (("2026-01-01T00:00:00", 422), ("2026-01-01T00:00:00%2B01:00", 200)):
        answer = standing.get("/v1/emails", query_string=f"{parameter}={time}")
        assert answer.status_code == status


def test_a_requeue_needs_its_new_deadline_with_an_offset_too(standing: Api):
    body = {"reason": "still wanted", "not_after": "2999-01-01T00:00:00"}
    answer = standing.post("/v1/emails/00000000-0000-4000-8000-000000000000/requeue", body)
    assert answer.status_code == 422
    assert set(answer.json["errors"]) == {"not_after"}
