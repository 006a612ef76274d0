"""What one call carries, that it is one, what it asks of the account, and a foreign SES."""

import dataclasses
import threading
from concurrent.futures import ThreadPoolExecutor

import boto3
import pytest
from botocore.validate import ParamValidator

from mail_service.domain.answers import Answer
from mail_service.domain.outcomes import Accepted, Held, HoldScope, Refused
from mail_service.errors import Unavailable
from mail_service.gateways.ses import SendingQuota, SesMailer, ses_client
from mail_service.ports import OutgoingEmail
from tests.gateways.test_ses_wire import (
    EMAIL,
    MESSAGE_ID,
    accept_mail,
    answer,
    clean_aws,
    mailer_for,
    wire,
)

FULL = OutgoingEmail(
    request_tag="tag-1",
    sender="=?utf-8?q?Z=C3=BCrich?= <hello@example.com>",
    subject="Grüße ✉",
    to=("b@example.org", "a@example.org", "b@example.org"),
    cc=("c@example.org",),
    bcc=("e@example.org", "d@example.org"),
    reply_to=("answers@example.com",),
    headers=(("X-Order", "1042"), ("List-Unsubscribe", "<https://example.com/u/1>")),
    text="täxt",
    html="<p>ü</p>",
)


@pytest.fixture(autouse=True)
def no_aws(monkeypatch):
    clean_aws(monkeypatch)


def sent(email: OutgoingEmail, configuration_set: str | None = None) -> dict:
    with wire() as told:
        outcome = mailer_for(f"http://127.0.0.1:{told.port}", configuration_set).send(email)
    assert outcome == Accepted(provider_message_id=MESSAGE_ID)
    (request,) = told.requests
    return request.json


def test_a_call_carries_every_field_in_the_order_given():
    assert sent(FULL, "transactional") == {
        "FromEmailAddress": "=?utf-8?q?Z=C3=BCrich?= <hello@example.com>",
        "Destination": {
            "ToAddresses": ["b@example.org", "a@example.org", "b@example.org"],
            "CcAddresses": ["c@example.org"],
            "BccAddresses": ["e@example.org", "d@example.org"],
        },
        "ReplyToAddresses": ["answers@example.com"],
        "Content": {
            "Simple": {
                "Subject": {"Data": "Grüße ✉", "Charset": "UTF-8"},
                "Body": {
                    "Text": {"Data": "täxt", "Charset": "UTF-8"},
                    "Html": {"Data": "<p>ü</p>", "Charset": "UTF-8"},
                },
                "Headers": [
                    {"Name": "X-Mail-Service-Attempt", "Value": "tag-1"},
                    {"Name": "X-Order", "Value": "1042"},
                    {"Name": "List-Unsubscribe", "Value": "<https://example.com/u/1>"},
                ],
            }
        },
        "EmailTags": [{"Name": "mail_service_attempt", "Value": "tag-1"}],
        "ConfigurationSetName": "transactional",
    }


def test_a_call_leaves_out_what_the_email_has_not():
    body = sent(EMAIL)
    assert body.keys() == {"FromEmailAddress", "Destination", "Content", "EmailTags"}
    assert body["Destination"] == {"ToAddresses": ["ada@example.org"]}
    assert body["Content"]["Simple"]["Body"].keys() == {"Text"}


def test_a_call_fits_the_service_model_that_the_client_is_told_not_to_check():
    client = ses_client("eu-west-1", "http://127.0.0.1:9", 0.1, 0.1, 1)
    shape = client.meta.service_model.operation_model("SendEmail").input_shape
    request = SesMailer(client, "transactional")._request(FULL)
    assert not ParamValidator().validate(request, shape).has_errors()


@pytest.mark.parametrize(
    "email", [dataclasses.replace(EMAIL, to=()), dataclasses.replace(EMAIL, text=None)]
)
def test_an_email_without_recipients_or_content_is_our_bug_and_never_called(email):
    with wire() as told:
        outcome = mailer_for(f"http://127.0.0.1:{told.port}").send(email)
    assert outcome == Refused(error_class="parameters", alarm=True)
    assert told.connections == 0


@pytest.mark.parametrize("mode", ["legacy", "standard", "adaptive"])
def test_a_failed_call_is_one_request_whatever_the_environment_asks_for(monkeypatch, mode):
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "5")
    monkeypatch.setenv("AWS_RETRY_MODE", mode)
    with wire() as told:
        told.do(answer(503, {}, ""))
        mailer_for(f"http://127.0.0.1:{told.port}").send(EMAIL)
    assert len(told.requests) == 1


def test_as_many_calls_run_at_once_as_there_are_slots_and_each_keeps_its_connection():
    with wire() as told:
        together = threading.Barrier(4)

        def wait_for_all(peer, request):
            together.wait(5)
            accept_mail(keep=True)(peer, request)

        told.do(wait_for_all)
        mailer = mailer_for(f"http://127.0.0.1:{told.port}")
        with ThreadPoolExecutor(4) as threads:
            for _ in range(3):
                outcomes = list(threads.map(mailer.send, [EMAIL] * 4))
                assert outcomes == [Accepted(provider_message_id=MESSAGE_ID)] * 4
    assert told.connections == 4


def test_neither_an_email_nor_an_answer_shows_people_when_printed():
    printed = repr(FULL) + repr(
        Answer(text="secret@example.org", sender="s@example.org", recipients=("r@example.org",))
    )
    assert "@example.org" not in printed
    assert "täxt" not in printed


ACCOUNT = (
    '{"ProductionAccessEnabled": true, "SendingEnabled": true, "SendQuota":'
    ' {"Max24HourSend": 50000.0, "MaxSendRate": 14.0, "SentLast24Hours": 120.0}}'
)


def quota_of(status: int, body: str) -> SendingQuota:
    with wire() as told:
        told.do(answer(status, {"Content-Type": "application/json"}, body))
        try:
            return mailer_for(f"http://127.0.0.1:{told.port}").quota()
        finally:
            assert [request.line for request in told.requests] == ["GET /v2/email/account HTTP/1.1"]


def test_the_quota_tells_rate_daily_limit_and_access():
    assert quota_of(200, ACCOUNT) == SendingQuota(
        max_per_second=14.0,
        max_per_day=50000.0,
        sent_last_day=120.0,
        sending_enabled=True,
        production_access=True,
    )


def test_a_daily_limit_of_minus_one_is_no_limit():
    assert quota_of(200, ACCOUNT.replace("50000.0", "-1.0")).max_per_day is None


@pytest.mark.parametrize(
    ("status", "body"),
    [(200, "{}"), (200, "<html>"), (500, ""), (403, '{"message": "arn:aws:iam::1:user/ada"}')],
)
def test_a_quota_that_can_t_be_read_is_unavailable_and_names_nobody(status, body):
    with pytest.raises(Unavailable) as raised:
        quota_of(status, body)
    assert "ada" not in str(raised.value)


@pytest.fixture
def foreign(moto):
    client = boto3.session.Session(region_name="eu-west-1").client("sesv2", endpoint_url=moto)
    client.create_email_identity(EmailIdentity="hello@example.com")
    return mailer_for(moto)


def test_a_foreign_ses_takes_our_mail(foreign):
    outcome = foreign.send(dataclasses.replace(EMAIL, sender="hello@example.com", html="<p>x</p>"))
    assert isinstance(outcome, Accepted)


def test_a_foreign_ses_that_does_not_know_our_sender_holds_that_sender(foreign):
    outcome = foreign.send(dataclasses.replace(EMAIL, sender="nobody@example.net"))
    assert outcome == Held(
        scope=HoldScope.SENDER, error_class="sender_not_verified", error_code="MessageRejected"
    )
