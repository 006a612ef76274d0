"""Emails: one per dedup key, the shape of interface.md, and pages that lose nothing."""

from typing import Any

import pytest

from tests import steps
from tests.api.conftest import ACCOUNT, EMAIL, NOBODY, Api
from tests.conftest import Sql


def test_a_new_email_is_created_and_wakes_the_drains(api: Api):
    answer = api.post("/v1/emails", EMAIL)
    assert answer.status_code == 201
    assert (answer.json["state"], answer.json["dedup_key"]) == ("pending", "order-1")
    assert len(api.nudges) == 1


def test_the_same_intent_under_the_same_key_gives_the_standing_email_and_wakes_nobody(
    api: Api, sql: Sql
):
    first = api.post("/v1/emails", EMAIL)
    again = api.post(
        "/v1/emails", EMAIL | dict.fromkeys(("data", "reply_to", "from", "cc", "bcc", "headers"))
    )
    assert (again.status_code, again.json) == (200, first.json)
    assert sql.one("SELECT count(*) FROM mail_service.email_outbox") == 1
    assert len(api.nudges) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"to": ["eve@example.com"]},
        {"to": ["ada@example.com", "ada@example.com"]},
        {"data": {"name": "Ada"}},
        {"reply_to": "help@example.com"},
        {"cc": ["eve@example.com"]},
        {"headers": {"X-Order": "1"}},
        {"from": "Other <other@example.com>"},
        {"on_ambiguous": "resend"},
        {"template": "password-reset-v1", "data": {"link": "https://example.com/"}},
    ],
)
def test_another_intent_under_the_same_key_is_a_conflict(
    api: Api, sql: Sql, change: dict[str, Any]
):
    api.post("/v1/emails", EMAIL)
    answer = api.post("/v1/emails", EMAIL | change)
    assert answer.status_code == 409
    assert "ada@example.com" not in answer.text
    assert sql.one("SELECT count(*) FROM mail_service.email_outbox") == 1


def test_an_email_may_go_to_an_account(api: Api):
    account = api.post("/v1/accounts", ACCOUNT).json["account"]
    body = {"dedup_key": "hello", "template": "welcome-v1", "account_id": account["id"]}
    answer = api.post("/v1/emails", body)
    assert answer.status_code == 201
    assert answer.json["account_id"] == account["id"]
    assert [r["address"] for r in answer.json["recipients"]] == ["ada@example.com"]


def test_an_account_that_is_not_there_is_named(api: Api):
    body = {"dedup_key": "hello", "template": "welcome-v1", "account_id": NOBODY}
    answer = api.post("/v1/emails", body)
    assert answer.status_code == 422
    assert set(answer.json["errors"]) == {"account_id"}


def test_recipients_keep_their_order_and_repetitions(api: Api):
    to = ["b@example.com", "a@example.com", "b@example.com"]
    answer = api.post("/v1/emails", EMAIL | {"to": to})
    assert [r["address"] for r in answer.json["recipients"]] == to


def test_copies_show_with_their_kind(api: Api):
    copies = {"cc": ["c@example.com"], "bcc": ["b@example.com"]}
    answer = api.post("/v1/emails", EMAIL | copies)
    assert answer.status_code == 201
    assert [(r["kind"], r["address"]) for r in answer.json["recipients"]] == [
        ("to", "ada@example.com"),
        ("cc", "c@example.com"),
        ("bcc", "b@example.com"),
    ]


@pytest.mark.parametrize("reply_to", ["help@example.com", ["help@example.com", "b@example.com"]])
def test_reply_to_is_one_address_or_several(api: Api, reply_to: object):
    assert api.post("/v1/emails", EMAIL | {"reply_to": reply_to}).status_code == 201


def test_everything_that_happened_shows_in_the_shape_of_the_contract(api: Api, mailer):
    email = api.post("/v1/emails", EMAIL | {"to": ["ada@example.com", "eve@example.com"]}).json
    (claim,) = steps.send_all(api.rt)
    tag = str(claim.row.attempt_id)
    steps.bring(api.rt, steps.ses_event("Send", tag=tag))
    steps.bring(api.rt, steps.ses_event("Delivery", tag=tag, recipients=("ada@example.com",)))
    steps.bring(api.rt, steps.ses_event("Bounce", tag=tag, recipients=("eve@example.com",)))
    shown = api.get(f"/v1/emails/{email['id']}").json
    assert set(shown) == {
        *("id", "dedup_key", "template", "account_id", "state", "reason", "on_ambiguous", "epoch"),
        *("priority", "created_at", "next_attempt_at", "not_after", "finished_at", "policy_note"),
        *("recipients", "attempts", "events", "decisions"),
    }  # fmt: skip
    assert shown["state"] == "submitted"
    assert [r["status"] for r in shown["recipients"]] == ["delivered", "bounced"]
    assert set(shown["recipients"][1]) == {
        *("address", "kind", "status", "delivered_at", "bounced_at", "bounce_type"),
        *("bounce_subtype", "complained_at", "complaint_type", "delayed_at", "rejected_at"),
        "suppressed_at",
    }
    (attempt,) = shown["attempts"]
    assert set(attempt) == {
        *("id", "number", "epoch", "state", "request_tag", "provider_message_id", "error_class"),
        *("error_code", "started_at", "finished_at", "decision", "resolved_by"),
        "unconfirmed",
    }
    assert (attempt["state"], attempt["request_tag"]) == ("accepted", tag)
    assert sorted(event["kind"] for event in shown["events"]) == ["bounce", "delivery", "send"]
    assert set(shown["events"][0]) == {"id", "kind", "occurred_at", "received_at"}
    assert shown["decisions"] == []


def test_pages_give_every_email_once_newest_first(api: Api, sql: Sql):
    for number in range(7):
        sql.advance(1)
        api.post("/v1/emails", EMAIL | {"dedup_key": f"order-{number}"})
    seen: list[str] = []
    after = None
    while True:
        page = api.get("/v1/emails", params={"limit": 3} | ({"after": after} if after else {})).json
        assert set(page) == {"items", "next"}
        seen += [email["dedup_key"] for email in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert seen == [f"order-{number}" for number in reversed(range(7))]


def test_a_page_that_ends_exactly_has_no_next(api: Api):
    for number in range(3):
        api.post("/v1/emails", EMAIL | {"dedup_key": f"order-{number}"})
    assert api.get("/v1/emails", params={"limit": 3}).json["next"] is None
    assert api.get("/v1/emails", params={"limit": 2}).json["next"] is not None
    assert len(api.get("/v1/emails").json["items"]) == 3


def test_the_filters_narrow_and_combine(api: Api, sql: Sql):
    api.post("/v1/emails", EMAIL)
    steps.send_all(api.rt)
    sql.advance(60)
    reset = {"template": "password-reset-v1", "data": {"link": "https://example.com/"}}
    later = api.post(
        "/v1/emails", {"dedup_key": "order-2", "to": ["eve@example.com"], **reset}
    ).json

    def keys(**query: str) -> list[str]:
        return [e["dedup_key"] for e in api.get("/v1/emails", params=query).json["items"]]

    assert keys() == ["order-2", "order-1"]
    assert keys(state="pending") == ["order-2"]
    assert keys(state="submitted") == ["order-1"]
    assert keys(template="welcome-v1") == ["order-1"]
    assert keys(recipient="EVE@example.com") == ["order-2"]
    assert keys(provider_message_id="message-1") == ["order-1"]
    assert keys(created_after=later["created_at"]) == ["order-2"]
    assert keys(created_before=later["created_at"]) == ["order-1"]
    assert keys(created_before="2000-01-01T00:00:00+02:00") == []
    assert keys(state="pending", recipient="ada@example.com") == []


@pytest.mark.parametrize("text", ["'; DROP TABLE mail_service.email_outbox; --", "%", "\\", "a,b"])
def test_text_in_a_filter_is_only_text(standing: Api, text: str):
    for name in ("template", "provider_message_id"):
        assert standing.get("/v1/emails", params={name: text}).json["items"] == []
