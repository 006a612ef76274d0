"""What becomes of one email, from the sign-up to the last event."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest

from mail_service.ports import TAG_NAME
from tests.journeys.conftest import Build
from tests.journeys.town import Town, canary


@pytest.fixture(scope="module")
def town(build: Build) -> Town:
    """The standard formation with one worker."""
    town = build()
    web, worker, clock = town.start("web"), town.start("worker"), town.start("clock")
    town.wait_ready(web)
    town.subscribe()
    worker.wait_for("worker.started")
    clock.wait_for("clock.started")
    return town


def suppressions(town: Town, address: str) -> list[dict[str, Any]]:
    """Give the active suppressions of an address."""
    found = town.api.call("GET", f"/v1/suppressions?active=true&address={quote(address)}")
    assert found.status == 200, found.text
    return found.json["items"]


def test_an_ordinary_sign_up_ends_submitted_and_delivered(town: Town) -> None:
    email = town.sign_up()
    done = town.wait_status(email, "delivered")
    assert done["state"] == "submitted"
    (attempt,) = done["attempts"]
    assert attempt["state"] == "accepted"
    (call,) = town.calls(email)
    assert call["tags"][TAG_NAME] == attempt["request_tag"]


def test_a_hard_bounce_ends_bounced_and_suppresses_the_address(town: Town) -> None:
    email = town.sign_up("bounce")
    done = town.wait_status(email, "bounced")
    assert done["state"] == "submitted"
    (found,) = suppressions(town, done["recipients"][0]["address"])
    assert found["reason"] == "bounce"


def test_a_complaint_ends_complained_and_suppresses_the_address(town: Town) -> None:
    email = town.sign_up("complaint")
    done = town.wait_status(email, "complained")
    assert done["state"] == "submitted"
    assert done["recipients"][0]["delivered_at"] is not None
    (found,) = suppressions(town, done["recipients"][0]["address"])
    assert found["reason"] == "complaint"


def test_a_suppressed_address_is_never_called(town: Town) -> None:
    address = town.address()
    answer = town.api.post("/v1/suppressions", {"address": address, "note": "asked by phone"})
    assert answer.status == 201, answer.text
    email = town.sign_up(address=address)
    done = town.wait_state(email, "suppressed")
    assert done["recipients"][0]["status"] == "suppressed"
    # A later email that is called proves that the line has moved past this one.
    town.wait_state(town.sign_up(), "submitted")
    assert town.calls(email) == []


def test_a_bounced_address_is_not_called_again(town: Town) -> None:
    email = town.sign_up("bounce")
    address = town.wait_status(email, "bounced")["recipients"][0]["address"]
    again = town.api.post(
        "/v1/emails",
        {"dedup_key": canary("key"), "template": "welcome-v1", "to": [address]},
    )
    assert again.status == 201, again.text
    town.wait_state(again.json, "suppressed")
    assert len(town.calls(email)) == 1


def test_a_call_that_timed_out_is_ambiguous_until_its_event_proves_it(town: Town) -> None:
    town.sandbox.knobs(hold_events=["Send", "Delivery"], hold_local_parts=["timeout"])
    try:
        email = town.sign_up("timeout")
        doubtful = town.wait_state(email, "ambiguous", "submitted")
        assert doubtful["state"] == "ambiguous"
        assert [attempt["state"] for attempt in doubtful["attempts"]] == ["unknown"]
        town.until(lambda: town.sandbox.held, "the Send event is held")
        assert town.email(email)["state"] == "ambiguous"
    finally:
        town.sandbox.knobs(hold_events=[], hold_local_parts=[])
    town.sandbox.release()
    proved = town.wait_state(email, "submitted")
    (attempt,) = proved["attempts"]
    assert attempt["state"] == "accepted"
    assert attempt["resolved_by"] == "event"
    town.wait_status(email, "delivered")
    assert len(town.calls(email)) == 1


def test_events_of_a_foreign_application_stay_unmatched_and_touch_nothing(town: Town) -> None:
    email = town.sign_up()
    before = town.wait_status(email, "delivered")
    address = before["recipients"][0]["address"]
    mail = {
        "timestamp": "2026-11-29T10:00:00.000Z",
        "messageId": canary("message"),
        "destination": [address],
        "tags": {"ses:configuration-set": ["theirs"], "request_tag": ["theirs-1"]},
    }
    told = {"timestamp": "2026-11-29T10:00:01.000Z", "feedbackId": "their-feedback"}
    events = [
        {
            "eventType": "Bounce",
            "mail": mail,
            "bounce": told
            | {
                "bounceType": "Permanent",
                "bounceSubType": "General",
                "bouncedRecipients": [{"emailAddress": address}],
            },
        },
        {
            "eventType": "Complaint",
            "mail": mail,
            "complaint": told | {"complainedRecipients": [{"emailAddress": address}]},
        },
    ]
    published = [town.sandbox.publish(json.dumps(event)) for event in events]
    assert [one["status"] for one in published] == [200, 200]
    stored = town.sql(
        "SELECT status::text FROM mail_service.ses_events WHERE sns_message_id = ANY(%s)",
        [one["message_id"] for one in published],
    )
    assert [row["status"] for row in stored] == ["unmatched", "unmatched"]
    assert town.email(email) == before
    assert suppressions(town, address) == []


def test_no_log_broker_row_error_column_or_metric_holds_what_is_secret(town: Town) -> None:
    for local_part in ("success", "bounce", "timeout", "rejected", "reset"):
        town.sign_up(local_part)
    # Requests that are refused, each with something in it that must not be repeated to a log.
    for body in (
        {"email": f"{canary('bad')} @@ {town.address()}"},
        {"email": town.address(), "data": {town.address(): "x"}, "nmae": town.address()},
    ):
        assert town.api.post("/v1/accounts", body).status == 422
    assert town.api.get(f"/v1/emails?recipient={quote(town.address())}").status == 200
    assert town.api.call("GET", f"/nowhere/{town.address()}").status == 404
    wrong = canary("wrong-key")
    town.canaries[wrong] = wrong
    refused = town.api.call("GET", "/v1/stats", headers={"Authorization": f"Bearer ms_{wrong}"})
    assert refused.status == 401
    town.until(
        lambda: not {"pending", "sending"} & set(town.states()), "nothing is pending or sending"
    )
    for program in town.programs:
        assert town.leaks(program.text()) == [], program.tail()
    for row in town.sql("SELECT to_jsonb(q)::text AS text FROM dramatiq.queue q"):
        assert town.leaks(row["text"]) == []
    for row in town.sql(
        """
        SELECT concat_ws(' ', error_class, error_code, decision, resolved_by) AS text
        FROM mail_service.send_attempts
        UNION ALL SELECT concat_ws(' ', reason, dedup_key) FROM mail_service.email_outbox
        UNION ALL SELECT to_jsonb(t)::text FROM mail_service.email_transitions t
        UNION ALL SELECT last_error FROM mail_service.sns_subscriptions WHERE last_error IS NOT NULL
        UNION ALL SELECT to_jsonb(r)::text FROM mail_service.webhook_rejections r
        """
    ):
        assert town.leaks(row["text"]) == []
    for path in ("/metrics", "/v1/stats", "/readyz", "/healthz", "/openapi.json"):
        assert town.leaks(town.api.get(path).text) == [], path
    town.check_logs()
