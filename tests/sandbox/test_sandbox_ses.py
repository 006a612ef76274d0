"""The SES operations, called by boto3 and, where boto3 would refuse, by hand."""

import json
import re
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from typing import Any

import pytest
from botocore.exceptions import ClientError
from sandbox_receiver import call, call_json, simple_mail, wait_for

from mail_service.sandbox import Sandbox, Signer

Send = Callable[..., str]


def post(sandbox: Sandbox, body: Any) -> tuple[int, str, str]:
    status, headers, text = call(f"{sandbox.url}/v2/email/outbound-emails", body)
    names = {name.lower(): value for name, value in headers.items()}
    return status, names.get("x-amzn-errortype", ""), json.loads(text).get("message", "")


def test_a_message_id_has_the_form_of_ses_and_is_never_given_twice(send: Send) -> None:
    ids = {send("ada@example.com") for _ in range(50)}
    assert len(ids) == 50
    form = r"0102[0-9a-f]{12}-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}-000000"
    assert all(re.fullmatch(form, one) for one in ids)


def test_every_answer_carries_a_request_id_of_its_own(ses: Any) -> None:
    ids = {ses.get_account()["ResponseMetadata"]["RequestId"] for _ in range(3)}
    assert len(ids) == 3


def test_a_simple_mail_keeps_headers_attachments_and_all_recipients(
    sandbox: Sandbox, ses: Any
) -> None:
    params = simple_mail("ada@example.com")
    params["Destination"] |= {"CcAddresses": ["B <b@example.com>"], "BccAddresses": ["c@x.org"]}
    params["ReplyToAddresses"] = ["reply@example.com"]
    params["Content"]["Simple"]["Attachments"] = [
        {"FileName": "a.pdf", "RawContent": b"%PDF", "ContentType": "application/pdf"}
    ]
    ses.send_email(**params)
    (mail,) = sandbox.inbox()
    assert mail["recipients"] == ["ada@example.com", "b@example.com", "c@x.org"]
    assert mail["attachments"] == [{"name": "a.pdf", "type": "application/pdf", "size": 4}]
    headers = {header["name"]: header["value"] for header in mail["headers"]}
    assert headers["X-Request-Tag"] == "t-1"
    assert headers["Reply-To"] == "reply@example.com"
    assert "Bcc" not in headers
    assert (mail["text"], mail["subject"]) == ("Hi", "Hello")


def test_a_raw_mail_is_read_from_its_own_head(sandbox: Sandbox, ses: Any) -> None:
    message = EmailMessage()
    message["From"], message["To"] = "App <hello@example.com>", "ada@example.com"
    message["Bcc"] = "secret@example.com"
    message["Subject"] = "Grüße"
    message["X-SES-CONFIGURATION-SET"] = "transactional"
    message["X-SES-MESSAGE-TAGS"] = "request_tag=t-9, team=blue"
    message.set_content("text part")
    message.add_alternative("<p>html part</p>", subtype="html")
    message.add_attachment(b"data", maintype="image", subtype="png", filename="x.png")
    ses.send_email(Content={"Raw": {"Data": bytes(message)}})
    (mail,) = sandbox.inbox()
    assert mail["recipients"] == ["ada@example.com", "secret@example.com"]
    assert mail["subject"] == "Grüße"
    assert mail["text"].strip() == "text part"
    assert mail["html"].strip() == "<p>html part</p>"
    assert mail["tags"] == {"request_tag": "t-9", "team": "blue"}
    assert mail["configuration_set"] == "transactional"
    assert mail["attachments"] == [{"name": "x.png", "type": "image/png", "size": 4}]


def test_the_account_tells_its_quota_and_standing_as_set(sandbox: Sandbox, ses: Any) -> None:
    before = ses.get_account()
    assert before["SendingEnabled"] is True
    assert before["ProductionAccessEnabled"] is True
    assert before["EnforcementStatus"] == "HEALTHY"
    sandbox.knobs(
        send_quota={"Max24HourSend": 200, "MaxSendRate": 1},
        sending_paused=True,
        production_access=False,
        enforcement_status="PROBATION",
    )
    after = ses.get_account()
    assert after["SendQuota"] == {"Max24HourSend": 200, "MaxSendRate": 1, "SentLast24Hours": 0}
    assert (after["SendingEnabled"], after["ProductionAccessEnabled"]) == (False, False)
    assert after["EnforcementStatus"] == "PROBATION"


def test_the_account_counts_real_recipients_and_not_the_simulators(send: Send, ses: Any) -> None:
    send("a@example.com", "b@example.com")
    send("success@simulator.amazonses.com")
    assert ses.get_account()["SendQuota"]["SentLast24Hours"] == 2


def test_an_address_is_suppressed_shown_and_released(ses: Any) -> None:
    ses.put_suppressed_destination(EmailAddress="ada+x@example.com", Reason="COMPLAINT")
    found = ses.get_suppressed_destination(EmailAddress="ada+x@example.com")
    assert found["SuppressedDestination"]["Reason"] == "COMPLAINT"
    age = datetime.now(UTC) - found["SuppressedDestination"]["LastUpdateTime"]
    assert abs(age) < timedelta(seconds=60)
    ses.delete_suppressed_destination(EmailAddress="ada+x@example.com")
    for operation in (ses.get_suppressed_destination, ses.delete_suppressed_destination):
        with pytest.raises(ses.exceptions.NotFoundException, match="does not exist on your"):
            operation(EmailAddress="ada+x@example.com")


def test_the_suppression_list_is_paged_and_filtered(ses: Any) -> None:
    for number in range(5):
        reason = "BOUNCE" if number % 2 else "COMPLAINT"
        ses.put_suppressed_destination(EmailAddress=f"{number}@example.com", Reason=reason)

    def listed(**filters: Any) -> list[str]:
        found: list[str] = []
        token: dict[str, str] = {}
        while True:
            page = ses.list_suppressed_destinations(PageSize=2, **filters, **token)
            assert len(page["SuppressedDestinationSummaries"]) <= 2
            found += [one["EmailAddress"] for one in page["SuppressedDestinationSummaries"]]
            if "NextToken" not in page:
                return found
            token = {"NextToken": page["NextToken"]}

    assert listed() == [f"{number}@example.com" for number in range(5)]
    assert listed(Reasons=["BOUNCE"]) == ["1@example.com", "3@example.com"]
    now = datetime.now(UTC)
    assert len(listed(StartDate=now - timedelta(hours=1), EndDate=now + timedelta(hours=1))) == 5
    assert listed(StartDate=now + timedelta(hours=1)) == []
    assert listed(EndDate=now - timedelta(hours=1)) == []
    with pytest.raises(ses.exceptions.InvalidNextTokenException):
        ses.list_suppressed_destinations(NextToken="bm9uc2Vuc2U=")


def test_configuration_sets_exist_until_a_knob_says_which(sandbox: Sandbox, ses: Any) -> None:
    assert ses.get_configuration_set(ConfigurationSetName="any")["SendingOptions"]
    (destination,) = ses.get_configuration_set_event_destinations(ConfigurationSetName="any")[
        "EventDestinations"
    ]
    assert destination["SnsDestination"] == {"TopicArn": sandbox.topic_arn}
    assert "SEND" in destination["MatchingEventTypes"]
    assert "DELIVERY_DELAY" in destination["MatchingEventTypes"]
    sandbox.knobs(configuration_sets=["transactional"], event_types=["Bounce"])
    (destination,) = ses.get_configuration_set_event_destinations(
        ConfigurationSetName="transactional"
    )["EventDestinations"]
    assert destination["MatchingEventTypes"] == ["BOUNCE"]
    for operation in (
        ses.get_configuration_set,
        ses.get_configuration_set_event_destinations,
        lambda **named: ses.send_email(**simple_mail("a@example.com") | named),
    ):
        with pytest.raises(ses.exceptions.NotFoundException) as caught:
            operation(ConfigurationSetName="other")
        assert caught.value.response["Error"]["Message"] == (
            "Configuration set <other> does not exist."
        )


def test_an_operation_that_is_not_imitated_names_itself(ses: Any) -> None:
    with pytest.raises(ClientError, match="does not implement the SES operation CreateContactList"):
        ses.create_contact_list(ContactListName="list")
    with pytest.raises(ClientError, match=r"SendEmail with Content\.Template"):
        ses.send_email(
            **simple_mail("a@example.com")
            | {"Content": {"Template": {"TemplateName": "t", "TemplateData": "{}"}}}
        )


def test_a_route_that_ses_does_not_have_is_unknown(sandbox: Sandbox) -> None:
    status, headers, _ = call(f"{sandbox.url}/v2/email/nonsense")
    assert status == 404
    assert headers["x-amzn-ErrorType"] == "UnknownOperationException"


BAD_ADDRESSES = {
    "plain": "Missing final '@domain'",
    "ada@": "Missing domain",
    "@example.com": "Missing local part",
    "a da@example.com": "Local address contains control or whitespace",
    "ada@exa mple.com": "Domain contains control or whitespace",
    "ada@example.com\u200b": "Domain contains control or whitespace",
    "ada@exa_mple.com": "Domain contains illegal character",
    "ada@example.com.": "Domain ends with dot",
    "ada@example..com": "Domain contains dot-dot",
    "a(da@example.com": "Local address contains illegal character",
    "jörg@example.com": "There are non-ASCII characters in the email address",
    "ada@bücher.example": "There are non-ASCII characters in the email address",
    "Jörg <ada@example.com>": "Missing final '@domain'",
}


@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_a_bad_address_is_refused_in_the_words_of_ses(address: str, ses: Any) -> None:
    with pytest.raises(ses.exceptions.BadRequestException) as caught:
        ses.send_email(**simple_mail(address))
    assert caught.value.response["Error"]["Message"] == BAD_ADDRESSES[address]
    with pytest.raises(ses.exceptions.BadRequestException):
        ses.send_email(**simple_mail("a@example.com") | {"FromEmailAddress": address})


GOOD_ADDRESSES = [
    "ada@example.com",
    "Ada Lovelace <ada@example.com>",
    '"Lovelace, Ada" <ada@example.com>',
    "=?utf-8?q?J=C3=B6rg?= <joerg@example.com>",
    "ada+label@xn--bcher-kva.example",
]


@pytest.mark.parametrize("address", GOOD_ADDRESSES)
def test_a_good_address_is_taken_with_or_without_a_name(address: str, send: Send) -> None:
    assert send(address)


BAD_PARAMETERS: list[tuple[dict[str, Any], str]] = [
    ({"Destination": {"ToAddresses": []}}, "There are no recipients specified"),
    ({"Destination": None}, "There are no recipients specified"),
    (
        {"Destination": {"ToAddresses": [f"{n}@example.com" for n in range(51)]}},
        "Recipient count exceeds 50.",
    ),
    ({"FromEmailAddress": None}, "Missing final '@domain'"),
    (
        {"EmailTags": [{"Name": "a", "Value": "x@y"}]},
        "Invalid tag value <x@y>: only alphanumeric ASCII characters, '_', and '-' are allowed.",
    ),
    (
        {"EmailTags": [{"Name": "a.b", "Value": "x"}]},
        "Invalid tag name <a.b>: only alphanumeric ASCII characters, '_', and '-' are allowed.",
    ),
    (
        {"EmailTags": [{"Name": "a", "Value": "x\n"}]},
        "Invalid tag value <x\n>: only alphanumeric ASCII characters, '_', and '-' are allowed.",
    ),
    ({"EmailTags": [{"Name": "a", "Value": "x" * 257}]}, "is longer than 256 characters"),
    ({"EmailTags": [{"Name": "a"}]}, 'Missing required parameter in EmailTags[0]: "Value"'),
    ({"EmailTags": "a"}, "Invalid type for parameter EmailTags"),
    ({"Content": None}, 'Missing required parameter in input: "Content"'),
    ({"Content": {}}, "exactly one of"),
    ({"Nonsense": 1}, 'Unknown parameter in input: "Nonsense"'),
    ({"Content": {"Raw": {"Data": "?"}}}, "Invalid base64"),
    (
        {"Content": {"Simple": {"Subject": {"Data": "s"}, "Body": {}}}},
        "must have a Text or an Html part",
    ),
]


@pytest.mark.parametrize(("change", "text"), BAD_PARAMETERS)
def test_what_the_model_or_ses_does_not_allow_is_a_bad_request(
    change: dict[str, Any], text: str, sandbox: Sandbox
) -> None:
    status, code, message = post(sandbox, simple_mail("ada@example.com") | change)
    assert (status, code) == (400, "BadRequestException")
    assert text in message
    assert sandbox.inbox() == []


@pytest.mark.parametrize(
    ("header", "rule"),
    [
        ({"Name": "X A", "Value": "v"}, "pattern"),
        ({"Name": "X:A", "Value": "v"}, "pattern"),
        ({"Name": "X-A", "Value": "grün"}, "pattern"),
        ({"Name": "X-A", "Value": "a\r\nBcc: b@example.com"}, "pattern"),
        ({"Name": "X" * 127, "Value": "v"}, "length less than or equal to 126"),
        ({"Name": "X-A", "Value": "v" * 996}, "length less than or equal to 995"),
        ({"Name": "X-A", "Value": "v" * 995}, "longer than 996"),
    ],
)
def test_a_header_that_ses_does_not_take_is_refused(
    header: dict[str, str], rule: str, sandbox: Sandbox
) -> None:
    params = simple_mail("ada@example.com")
    params["Content"]["Simple"]["Headers"] = [header]
    status, code, message = post(sandbox, params)
    assert (status, code) == (400, "BadRequestException")
    assert rule in message


@pytest.mark.parametrize("body", [b"{", b"[]", b'"text"', b"\xff"])
def test_a_body_that_is_no_json_object_is_a_bad_request(body: bytes, sandbox: Sandbox) -> None:
    assert post(sandbox, body)[:2] == (400, "BadRequestException")
    wait_for(lambda: len(sandbox.log()) == 3)
    assert [row["event"] for row in sandbox.log()] == ["arrived", "refused", "answered"]


def test_without_validation_only_the_model_goes_unchecked(signer: Signer) -> None:
    with Sandbox(signer=signer, validate=False) as sandbox:
        assert post(sandbox, simple_mail("ada@example.com") | {"Nonsense": 1})[0] == 200
        assert post(sandbox, simple_mail("nowhere"))[2] == "Missing final '@domain'"
        assert post(sandbox, simple_mail("ada@example.com") | {"Content": 3})[0] == 400


def test_forty_clients_send_at_once_on_connections_that_stay_open(sandbox: Sandbox) -> None:
    body = json.dumps(simple_mail("ada@example.com")).encode()
    head = f"POST /v2/email/outbound-emails HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n"
    port = int(sandbox.url.rpartition(":")[2])
    clients = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(40)]

    def send_ten(sock: socket.socket) -> int:
        good = 0
        for _ in range(10):
            sock.sendall(head.encode() + body)
            good += sock.recv(65536).startswith(b"HTTP/1.1 200")
        return good

    try:
        with ThreadPoolExecutor(40) as pool:
            assert sum(pool.map(send_ten, clients)) == 400
    finally:
        for sock in clients:
            sock.close()
    assert len({row["message_id"] for row in sandbox.log() if row["event"] == "accepted"}) == 400


def test_requests_that_arrive_in_pieces_or_in_one_go_are_all_answered(sandbox: Sandbox) -> None:
    port = int(sandbox.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as sock:
        request = b"GET /_sandbox/knobs HTTP/1.1\r\nHost: x\r\n\r\n"
        sock.sendall(request[:10])
        sock.sendall(request[10:] + request)
        sock.sendall(b"NONSENSE\r\n\r\n")
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    assert answer.count(b"HTTP/1.1 200 OK") == 2
    assert b"HTTP/1.1 400" in answer


def test_a_quota_that_is_enforced_throttles_by_recipients(sandbox: Sandbox, ses: Any) -> None:
    sandbox.knobs(enforce_quota=True, send_quota={"MaxSendRate": 0.001, "Max24HourSend": 1000})
    ses.send_email(**simple_mail("a@example.com"))
    with pytest.raises(ses.exceptions.TooManyRequestsException, match="Maximum sending rate"):
        ses.send_email(**simple_mail("a@example.com"))
    sandbox.knobs(send_quota={"MaxSendRate": 1_000_000, "Max24HourSend": 1})
    with pytest.raises(ses.exceptions.LimitExceededException, match="Daily message quota"):
        ses.send_email(**simple_mail("a@example.com"))


def test_the_sandbox_describes_itself(sandbox: Sandbox) -> None:
    about = call_json(f"{sandbox.url}/_sandbox")
    assert about["topic_arn"] == sandbox.topic_arn
    assert about["certificate_url"] == sandbox.certificate_url
    assert "success@simulator.amazonses.com" in about["simulator"]
    assert call(f"{sandbox.url}/_sandbox/nothing")[0] == 404
