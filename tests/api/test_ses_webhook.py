"""The webhook: statuses by what is wrong, the same few words for every refusal, 200 only once durable."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from falcon import testing

from mail_service.errors import Unavailable
from mail_service.runtime import Runtime
from mail_service.workflows import ingest
from tests import steps
from tests.api.conftest import EMAIL, Api
from tests.conftest import Sql
from tests.signing import (
    CERTIFICATE_URL,
    FOREIGN_TOPIC,
    Shelf,
    body_of,
    confirmation,
    make_reader,
    notification,
    rsa_key,
    sign,
)

PATH = "/webhooks/ses/sns"


def bring(api: Api, body: bytes, **more: Any) -> testing.Result:
    """Post as SNS does: no key, and a Content-Type of its own."""
    headers = {"Content-Type": "text/plain; charset=UTF-8"} | more.pop("headers", {})
    return api.post(PATH, body, key=None, headers=headers, **more)


def event(kind: str = "Send", **detail: Any) -> bytes:
    return body_of(sign(notification(json.dumps(steps.ses_event(kind, **detail)))))


def test_a_genuine_event_is_stored_once_and_lands_on_its_email(api: Api, sql: Sql):
    email = api.post("/v1/emails", EMAIL).json
    (claim,) = steps.send_all(api.rt)
    body = event("Delivery", tag=str(claim.row.attempt_id))
    first, again = bring(api, body), bring(api, body)
    assert (first.status_code, first.json) == (200, {"status": "ok"})
    assert (again.status_code, again.content) == (200, first.content)
    assert sql.one("SELECT count(*) FROM mail_service.ses_events") == 1
    assert sql.one("SELECT payload IS NOT NULL FROM mail_service.ses_events")
    (recipient,) = api.get(f"/v1/emails/{email['id']}").json["recipients"]
    assert recipient["status"] == "delivered"


@pytest.mark.parametrize(
    "content_type",
    ["application/json", "application/x-www-form-urlencoded", "text/xml", "\xff", ""],
)
def test_the_content_type_decides_nothing(api: Api, content_type: str):
    assert bring(api, event(), headers={"Content-Type": content_type}).status_code == 200


def test_headers_are_compared_whatever_their_case(api: Api):
    good = {"X-AMZ-SNS-Message-Type": "Notification"}
    bad = {"x-amz-sns-message-TYPE": "SubscriptionConfirmation"}
    assert bring(api, event(), headers=bad).status_code == 400
    assert bring(api, event(), headers=good).status_code == 200


def test_a_foreign_applications_and_an_unreadable_event_are_taken(api: Api, sql: Sql):
    assert bring(api, event("Bounce", message_id="of-another-application")).status_code == 200
    other = notification("no event", MessageId=str(UUID(int=7)))
    assert bring(api, body_of(sign(other))).status_code == 200
    rows = sql("SELECT status::text AS s FROM mail_service.ses_events ORDER BY 1")
    assert [row["s"] for row in rows] == ["unmatched", "unparseable"]


def test_a_confirmation_of_our_topic_is_taken_and_confirmed_by_its_token(
    api_of: Callable[[Runtime], Api], rt: Runtime, sql: Sql
):
    confirmed: list[tuple[str, str]] = []

    def confirm(topic: str, token: str) -> str:
        confirmed.append((topic, token))
        return f"{topic}:subscription"

    api = api_of(replace(rt, read_envelope=make_reader(), confirm_subscription=confirm))
    offer = confirmation()
    assert bring(api, body_of(sign(offer))).status_code == 200
    assert bring(api, body_of(sign(offer))).status_code == 200
    assert confirmed == [(offer["TopicArn"], offer["Token"])]
    gone = confirmation("UnsubscribeConfirmation", MessageId=str(UUID(int=8)))
    assert bring(api, body_of(sign(gone))).status_code == 200
    states = sql("SELECT state::text AS s FROM mail_service.sns_subscriptions ORDER BY 1")
    assert [row["s"] for row in states] == ["confirmed", "unsubscribed"]


MALFORMED = [
    b"",
    b"{}",
    b"[]",
    b"{",
    b"\xff\xfe",
    b"[" * 100_000,
    json.dumps(steps.ses_event()).encode(),
    body_of({**sign(notification()), "MessageId": 7}),
    body_of(sign(notification(Timestamp="yesterday"))),
    body_of(sign(notification(Type="Notice"))),
    body_of(sign(notification())).replace(b'"Type"', b'"Type": "Notification", "Type"', 1),
]
NOT_GENUINE = [
    body_of({**sign(notification()), "Message": "changed"}),
    body_of(sign(notification(), key=rsa_key(number=1))),
    body_of(sign(notification(TopicArn=FOREIGN_TOPIC))),
    body_of(sign(notification(), "1")),
    body_of(sign(notification(), url="https://evil.example/" + CERTIFICATE_URL[-68:])),
    body_of(sign(notification(), url="http://169.254.169.254/latest/meta-data")),
]


@pytest.mark.parametrize(
    ("body", "status"), [(b, 400) for b in MALFORMED] + [(b, 403) for b in NOT_GENUINE]
)
def test_a_refusal_says_little_and_changes_nothing_but_its_counter(
    api: Api, sql: Sql, body: bytes, status: int
):
    before = sql.dump()
    answer = bring(api, body)
    after = sql.dump()
    assert answer.status_code == status
    assert answer.json["detail"] == {400: "not an SNS message", 403: "not taken"}[status]
    assert "errors" not in answer.json
    assert len(after.pop("webhook_rejections")) == 1
    del before["webhook_rejections"]
    assert after == before


def test_a_body_over_the_limit_is_too_large_and_counted(runtime_of, api_of, sql: Sql):
    rt = runtime_of(WEBHOOK_MAX_BYTES="4096")
    api = api_of(replace(rt, read_envelope=make_reader(max_bytes=4096)))
    answer = bring(api, b" " * 4097)
    assert answer.status_code == 413
    assert sql("SELECT cause, count FROM mail_service.webhook_rejections") == [
        {"cause": "too_large", "count": 1}
    ]
    assert bring(api, b" " * 4096).status_code == 400


def test_half_a_body_is_malformed(standing: Api):
    body = event()
    answer = bring(standing, body, headers={"Content-Length": str(len(body) + 1)})
    assert answer.status_code == 400


def test_a_body_without_an_announced_length_is_taken(api: Api):
    answer = api.client.simulate_post(
        PATH, extras={"wsgi.input": io.BytesIO(event()), "wsgi.input_terminated": True}
    )
    assert answer.status_code == 200


def asks_again(answer: testing.Result) -> bool:
    return answer.status_code == 503 and int(answer.headers["retry-after"]) > 0


def test_without_a_database_sns_is_asked_to_try_again(
    api_of: Callable[[Runtime], Api], gone: Runtime
):
    api = api_of(replace(gone, read_envelope=make_reader()))
    assert asks_again(bring(api, event()))


def test_a_forged_request_is_refused_even_without_a_database(
    api_of: Callable[[Runtime], Api], gone: Runtime
):
    api = api_of(replace(gone, read_envelope=make_reader()))
    assert bring(api, NOT_GENUINE[0]).status_code == 403


def test_a_certificate_that_can_not_be_fetched_is_a_fault_of_ours_and_counted(
    api_of: Callable[[Runtime], Api], rt: Runtime, sql: Sql
):
    shelf = Shelf({CERTIFICATE_URL: Unavailable("no route")})
    api = api_of(replace(rt, read_envelope=make_reader(shelf)))
    assert asks_again(bring(api, event()))
    assert sql("SELECT cause, count FROM mail_service.webhook_rejections") == [
        {"cause": "no_certificate", "count": 1}
    ]
    assert sql.one("SELECT count(*) FROM mail_service.ses_events") == 0


def test_an_unexpected_fault_is_ours_too_and_nothing_is_half_written(
    api: Api, sql: Sql, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object) -> None:
        raise RuntimeError("in the middle")

    monkeypatch.setattr(ingest, "match", fail)
    assert asks_again(bring(api, event()))
    assert sql.one("SELECT count(*) FROM mail_service.ses_events") == 0
    monkeypatch.undo()
    assert bring(api, event()).status_code == 200
