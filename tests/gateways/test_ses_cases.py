"""Every case of cases/errors.json: what it means, over the wire wherever it has one.

``acceptance`` is the safety rule: a mail that may be with SES is never called refused. EXPECTED
says which outcome design.md section 6 wants of each.
"""

import json
import select
import socket
from pathlib import Path

import pytest
from botocore import exceptions
from botocore.exceptions import ClientError

from mail_service.domain.outcomes import Accepted, Deferred, Held, HoldScope, Pace, Refused, Unknown
from mail_service.gateways.ses import SesMailer
from tests.gateways.test_ses_wire import (
    EMAIL,
    MESSAGE_ID,
    Wire,
    answer,
    clean_aws,
    mailer_for,
    reset,
    send_head,
    wire,
)

CASES = {
    case["id"]: case
    for case in json.loads(
        (Path(__file__).parents[1] / "cases" / "errors.json").read_text(encoding="utf-8")
    )["errors"]
}
NOT_A_CALL = {"sigv2_smtp_rate", "too_many_recipients_counts"}  # SMTP's own, and a remark


def held(scope: HoldScope, error_class: str, code: str | None) -> Held:
    return Held(scope=scope, error_class=error_class, error_code=code)


def throttled(code: str) -> Deferred:
    return Deferred(error_class="throttled", error_code=code, pace=Pace.THROTTLED)


def unknown(error_class: str, code: str | None) -> Unknown:
    return Unknown(error_class=error_class, error_code=code)


BAD = Refused(error_class="bad_request", error_code="BadRequestException")
QUOTA = "daily_quota"
EXPECTED = {
    "rate_429": throttled("TooManyRequestsException"),
    "rate_400_v1": throttled("Throttling"),
    "throttling_400": throttled("ThrottlingException"),
    "daily_quota_limit": held(HoldScope.ACCOUNT, QUOTA, "LimitExceededException"),
    "daily_quota_throttling": held(HoldScope.ACCOUNT, QUOTA, "TooManyRequestsException"),
    "limit_as_rate": throttled("LimitExceededException"),
    "paused_as_rejected": held(HoldScope.ACCOUNT, "sending_paused", "MessageRejected"),
    "sending_paused": held(HoldScope.ACCOUNT, "sending_paused", "SendingPausedException"),
    "account_suspended": held(HoldScope.ACCOUNT, "account_suspended", "AccountSuspendedException"),
    "not_verified": held(HoldScope.SENDER, "sender_not_verified", "MessageRejected"),
    "mail_from_not_verified": held(
        HoldScope.SENDER, "mail_from_not_verified", "MailFromDomainNotVerifiedException"
    ),
    "config_set_missing": held(
        HoldScope.CONFIGURATION_SET, "configuration_set_missing", "NotFoundException"
    ),
    "rejected_bad_content": Refused(error_class="rejected", error_code="MessageRejected"),
    **{f"bad_request_{n}": BAD for n in range(1, 11)},
    "expired_token": held(HoldScope.ACCOUNT, "credentials", "ExpiredTokenException"),
    "invalid_key": held(HoldScope.ACCOUNT, "credentials", "UnrecognizedClientException"),
    "bad_signature": held(HoldScope.ACCOUNT, "credentials", "InvalidSignatureException"),
    "clock_skew": held(HoldScope.ACCOUNT, "clock_skew", "InvalidSignatureException"),
    "access_denied": held(HoldScope.SENDER, "access_denied", "AccessDeniedException"),
    "no_credentials": held(HoldScope.ACCOUNT, "credentials", "NoCredentialsError"),
    "partial_credentials": held(HoldScope.ACCOUNT, "credentials", "PartialCredentialsError"),
    "no_region": held(HoldScope.ENDPOINT, "endpoint_unusable", "NoRegionError"),
    "param_validation": Refused(
        error_class="parameters", error_code="ParamValidationError", alarm=True
    ),
    "endpoint_connection_refused": held(
        HoldScope.ENDPOINT, "endpoint_unreachable", "EndpointConnectionError"
    ),
    "endpoint_dns": held(HoldScope.ENDPOINT, "endpoint_unreachable", "EndpointConnectionError"),
    "connect_timeout": held(HoldScope.ENDPOINT, "endpoint_unreachable", "ConnectTimeoutError"),
    "proxy_connection": held(HoldScope.ENDPOINT, "endpoint_unreachable", "ProxyConnectionError"),
    "ssl_certificate": held(HoldScope.ENDPOINT, "tls", "SSLError"),
    "ssl_wrong_version": held(HoldScope.ENDPOINT, "tls", "SSLError"),
    "ssl_other": unknown("connection_lost", "SSLError"),
    "closed_without_response": unknown("connection_lost", "ConnectionClosedError"),
    "reset_without_response": unknown("connection_lost", "ConnectionClosedError"),
    "reset_before_read": unknown("connection_lost", "ConnectionClosedError"),
    "junk_status_line": unknown("connection_lost", "ConnectionClosedError"),
    "read_timeout": unknown("read_timeout", "ReadTimeoutError"),
    "truncated_200": unknown("connection_lost", "ConnectionClosedError"),
    "truncated_chunked_200": unknown("connection_lost", "ConnectionClosedError"),
    **{
        f"200_{what}": unknown("no_message_id", "200")
        for what in ("html", "empty", "empty_object", "null_id", "broken_json")
    },
    "200_ok": Accepted(provider_message_id=MESSAGE_ID),
    "500_empty": unknown("server_error", "500"),
    "500_internal_service_error": unknown("server_error", "InternalServiceErrorException"),
    "502_html": unknown("server_error", "502"),
    "503_html": unknown("server_error", "503"),
    "503_plain": unknown("server_error", "503"),
    "504_empty": unknown("server_error", "504"),
    "408_empty": unknown("server_error", "408"),
    "413_empty": Refused(error_class="too_large", error_code="413"),
    "301_redirect": held(HoldScope.ENDPOINT, "unexpected_answer", "301"),
    "unknown_400_code": Deferred(
        error_class="unknown_refusal", error_code="SomethingNew", pace=Pace.SLOW, alarm=True
    ),
    "client_error_without_error_key": unknown("unexpected_error", "ClientError"),
}

URL = "https://email.eu-west-1.amazonaws.com/v2/email/outbound-emails"
VERIFY_FAILED = "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed"


def client_error(code: str, status: int, message: str) -> ClientError:
    said = {
        "Error": {"Code": code, "Message": message},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(said, "SendEmail")


RAISED = {
    "rate_400_v1": client_error("Throttling", 400, "Maximum sending rate exceeded."),
    "limit_as_rate": client_error("LimitExceededException", 400, "Sending rate exceeded."),
    "no_credentials": exceptions.NoCredentialsError(),
    "partial_credentials": exceptions.PartialCredentialsError(provider="env", cred_var="X"),
    "no_region": exceptions.NoRegionError(),
    "param_validation": exceptions.ParamValidationError(report="x"),
    "endpoint_connection_refused": exceptions.EndpointConnectionError(endpoint_url=URL),
    "endpoint_dns": exceptions.EndpointConnectionError(endpoint_url=URL),
    "connect_timeout": exceptions.ConnectTimeoutError(endpoint_url=URL),
    "proxy_connection": exceptions.ProxyConnectionError(proxy_url="http://proxy:3128"),
    "ssl_certificate": exceptions.SSLError(endpoint_url=URL, error=VERIFY_FAILED),
    "ssl_wrong_version": exceptions.SSLError(
        endpoint_url=URL, error="[SSL: WRONG_VERSION_NUMBER] wrong version number (_ssl.c:1006)"
    ),
    "ssl_other": exceptions.SSLError(endpoint_url=URL, error="[SSL] record layer failure"),
    "client_error_without_error_key": ClientError({}, "SendEmail"),
}


class Raising:
    def __init__(self, error: Exception) -> None:
        self.error = error
        self.calls = 0

    def send_email(self, **_: object) -> dict:
        self.calls += 1
        raise self.error


@pytest.fixture(scope="module")
def replay(tmp_path_factory):
    """One client for all cases, in an environment that asks for retries in three ways."""
    profile = tmp_path_factory.mktemp("aws") / "config"
    profile.write_text("[default]\nretry_mode = adaptive\nmax_attempts = 7\n")
    with pytest.MonkeyPatch.context() as patch, wire() as told:
        clean_aws(
            patch,
            AWS_MAX_ATTEMPTS="5",
            AWS_RETRY_MODE="standard",
            AWS_NEW_RETRIES_2026="true",
            AWS_CONFIG_FILE=str(profile),
        )
        yield told, mailer_for(f"http://127.0.0.1:{told.port}")


def act(told: Wire, case: dict) -> None:
    spec = case["wire"]
    behaviour = spec.get("behaviour")
    headers, body = spec.get("headers", {}), spec.get("body", "")

    def cut(peer, _):
        send_head(peer, spec["status"], headers)
        peer.sendall(body.encode())
        peer.close()

    def junk(peer, _):
        peer.sendall(b"\x15\x03\x01\x00\x02\x02\x28 no http\r\n\r\n")
        peer.close()

    told.do(
        {
            None: lambda: answer(spec["status"], headers, body),
            "close early": lambda: cut,
            "read request, close": lambda: lambda peer, _: peer.close(),
            "read request, reset": lambda: lambda peer, _: reset(peer),
            "accept, reset": lambda: lambda peer, _: None,
            "read request, send non-HTTP bytes": lambda: junk,
            "read request, stay silent": lambda: lambda *_: told.released.wait(5),
        }[behaviour]()
    )
    if behaviour == "accept, reset":
        told.on_accept = reset_unread


def reset_unread(peer: socket.socket) -> bool:
    """Wait for the first byte: a reset before it can meet the client while it still connects."""
    select.select([peer], [], [], 5)
    reset(peer)
    return False


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if "wire" in case])
def test_an_answer_on_the_wire_means_what_the_case_says_after_exactly_one_request(name, replay):
    told, mailer = replay
    act(told, CASES[name])
    outcome = mailer.send(EMAIL)
    assert outcome == EXPECTED[name]
    assert told.connections == 1
    assert len(told.requests) == (0 if name == "reset_before_read" else 1)


@pytest.mark.parametrize("name", sorted(RAISED))
def test_a_failure_without_an_answer_means_what_the_case_says(name):
    client = Raising(RAISED[name])
    assert SesMailer(client, None).send(EMAIL) == EXPECTED[name]
    assert client.calls == 1


def test_every_case_is_replayed_or_named_as_no_call():
    on_wire = {name for name, case in CASES.items() if "wire" in case}
    assert on_wire | RAISED.keys() | NOT_A_CALL == CASES.keys()
    assert EXPECTED.keys() == CASES.keys() - NOT_A_CALL


@pytest.mark.parametrize("name", sorted(CASES.keys() - NOT_A_CALL))
def test_the_expected_outcome_keeps_the_acceptance_that_the_case_states(name):
    allowed = {
        "definitely-not": Refused | Deferred | Held,
        "unknown": Unknown,
        "accepted": Accepted,
    }[CASES[name]["acceptance"]]
    assert isinstance(EXPECTED[name], allowed)
