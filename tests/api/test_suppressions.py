"""Suppressions, events and figures over HTTP."""

import pytest

from tests import steps
from tests.api.conftest import EMAIL, NOBODY, Api


def test_an_address_is_suppressed_once(api: Api):
    first = api.post("/v1/suppressions", {"address": "Ada@example.com", "note": "asked by phone"})
    again = api.post("/v1/suppressions", {"address": "ada@EXAMPLE.com", "reason": "manual"})
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json == first.json
    assert first.json["reason"] == "manual"
    assert first.json["source"].startswith("key:")


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, "address"),
        ({"address": "nobody"}, "address"),
        ({"address": "ada@example.com", "reason": "bounce"}, "reason"),
        ({"address": "ada@example.com", "note": "x" * 501}, "note"),
        ({"address": "ada@example.com", "released_at": None}, "released_at"),
    ],
)
def test_an_unusable_suppression_names_the_field(standing: Api, body: dict[str, str], named: str):
    answer = standing.post("/v1/suppressions", body)
    assert answer.status_code == 422
    assert set(answer.json["errors"]) == {named}


def test_a_suppression_is_released_once_by_a_rule(api: Api):
    added = api.post("/v1/suppressions", {"address": "ada@example.com"}).json
    path = f"/v1/suppressions/{added['id']}/release"
    asked = {"rule": "operator_error", "reason": "wrong Ada"}
    released = api.post(path, asked)
    assert released.status_code == 200
    assert released.json["release_rule"] == "operator_error"
    assert released.json["released_by"].startswith("key:")
    assert api.post(path, asked).status_code == 409


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, {"rule", "reason"}),
        ({"rule": "because", "reason": "r"}, {"rule"}),
        ({"rule": "operator_error", "reason": ""}, {"reason"}),
        ({"rule": "operator_error", "reason": " "}, {"reason"}),
        ({"rule": "operator_error", "reason": "r", "confirm": "true"}, {"confirm"}),
        ({"rule": "operator_error", "reason": "r", "confirm": 1}, {"confirm"}),
    ],
)
def test_an_unusable_release_names_the_field(
    standing: Api, body: dict[str, object], named: set[str]
):
    answer = standing.post(f"/v1/suppressions/{NOBODY}/release", body)
    assert answer.status_code == 422
    assert set(answer.json["errors"]) == named


def test_a_suppression_that_is_not_there_can_not_be_released(standing: Api):
    asked = {"rule": "operator_error", "reason": "r"}
    assert standing.post(f"/v1/suppressions/{NOBODY}/release", asked).status_code == 404
    assert standing.post("/v1/suppressions/1/release", asked).status_code == 404


def test_a_complaint_is_released_only_by_renewed_consent_that_is_confirmed(api: Api):
    api.post("/v1/emails", EMAIL)
    (claim,) = steps.send_all(api.rt)
    steps.bring(api.rt, steps.ses_event("Complaint", tag=str(claim.row.attempt_id)))
    (row,) = api.get("/v1/suppressions", params={"reason": "complaint"}).json["items"]
    path = f"/v1/suppressions/{row['id']}/release"
    for asked in (
        {"rule": "operator_error", "reason": "r", "confirm": True},
        {"rule": "consent_renewed", "reason": "r"},
        {"rule": "consent_renewed", "reason": "r", "confirm": False},
    ):
        assert api.post(path, asked).status_code == 409
    asked = {"rule": "consent_renewed", "reason": "r", "confirm": True}
    assert api.post(path, asked).status_code == 200


def test_suppressions_are_paged_and_narrowed(api: Api):
    ids = [
        api.post("/v1/suppressions", {"address": f"{name}@example.com"}).json["id"]
        for name in ("ada", "eve", "bob")
    ]
    asked = {"rule": "address_confirmed", "reason": "r"}
    api.post(f"/v1/suppressions/{ids[1]}/release", asked)

    def found(**query: str) -> set[str]:
        return {row["id"] for row in api.get("/v1/suppressions", params=query).json["items"]}

    assert found() == set(ids)
    assert found(active="true") == {ids[0], ids[2]}
    assert found(active="false") == {ids[1]}
    assert found(address="ADA@example.com") == {ids[0]}
    assert found(reason="bounce") == set()
    first = api.get("/v1/suppressions", params={"limit": "2"}).json
    second = api.get("/v1/suppressions", params={"limit": "2", "after": first["next"]}).json
    assert {row["id"] for row in first["items"] + second["items"]} == set(ids)
    assert second["next"] is None


def test_events_are_paged_and_narrowed_by_status(api: Api):
    api.post("/v1/emails", EMAIL)
    (claim,) = steps.send_all(api.rt)
    steps.bring(api.rt, steps.ses_event("Send", tag=str(claim.row.attempt_id)))
    steps.bring(api.rt, steps.ses_event("Delivery", message_id="of-another-application"))
    steps.bring(api.rt, "no event at all")

    def kinds(**query: str) -> list[str]:
        return [event["kind"] for event in api.get("/v1/events", params=query).json["items"]]

    assert sorted(kinds()) == ["delivery", "other", "send"]
    assert kinds(status="matched") == ["send"]
    assert kinds(status="unmatched") == ["delivery"]
    assert kinds(status="unparseable") == ["other"]
    first = api.get("/v1/events", params={"limit": "1"}).json
    assert first["next"] is not None
    assert "payload" not in first["items"][0]


def test_the_figures_agree_as_json_and_as_metrics(api: Api):
    api.post("/v1/emails", EMAIL)
    api.post("/v1/suppressions", {"address": "eve@example.com"})
    figures = api.get("/v1/stats").json
    metrics = api.get("/metrics")
    assert figures["queue"]["pending"] == 1
    assert 'mail_service_emails{state="pending"} 1.0' in metrics.text
    assert figures["suppressions"] == [{"label": "manual", "count": 1}]
    assert 'mail_service_suppressions{reason="manual"} 1.0' in metrics.text
    assert metrics.headers["content-type"].startswith("text/plain")
