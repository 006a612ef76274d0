"""Genuine signed messages and whole requests from the field (CASES_DIR; see its README.md)."""

import base64
import json
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from cryptography import x509

from mail_service.domain.events import Notification, SubscriptionOffer, UnsubscribeNotice
from mail_service.errors import EnvelopeRefused, MalformedEnvelope, NotGenuine
from mail_service.gateways.sns import verify
from tests.signing import (
    CERTIFICATE_FILE,
    CERTIFICATE_URL,
    REPOSITORY,
    Shelf,
    body_of,
    certificate,
    make_reader,
    notification,
    sign,
)

CASES = Path(os.environ.get("CASES_DIR") or REPOSITORY.parent / "shared" / "cases")
SIGNED = CASES / "signed"
pytestmark = pytest.mark.skipif(
    not SIGNED.is_dir(), reason=f"no cases from the field in {CASES}: set CASES_DIR"
)


def index(path: Path) -> dict[str, list[dict[str, object]]]:
    return json.loads(path.read_bytes()) if path.is_file() else {}


def signed_files() -> Iterator[dict[str, object]]:
    yield from index(SIGNED / "index.json").get("messages", [])


FILES = {str(entry["file"]): entry for entry in signed_files()}


def read_case(name: str, **changes: object):
    """Read one file as SNS would have posted it, with the certificate and the clock of its day."""
    body = (SIGNED / name).read_bytes()
    fields = json.loads(body)
    pem = (SIGNED / str(FILES[name]["cert"])).read_bytes()
    address = fields.get("SigningCertURL") or fields.get("SigningCertUrl")
    shelf = Shelf({address: pem})
    of_its_day = datetime.fromisoformat(fields["Timestamp"])
    read = make_reader(
        shelf,
        topics=(fields["TopicArn"],),
        versions=("1", "2"),
        clock=lambda: changes.get("now", of_its_day),
    )
    return read, body, fields, shelf


REFUSED = {
    "v1_1024bit_2012_subject.json": "bad_certificate",
    "v2_ses_bounce_selfsigned_2026.json": "certificate_address",  # SimpleNotificationService-test
    "v1_localhost_cert_url_notification_sigok.json": "certificate_address",
}


def accepted() -> list[str]:
    return [n for n, entry in FILES.items() if entry["verified"] is True and n not in REFUSED]


def test_the_index_still_holds_what_these_tests_are_about():
    assert len(accepted()) >= 10
    assert set(REFUSED) <= set(FILES)
    assert all(
        "accept" in str(FILES[n]["expected"]) or "valid" in str(FILES[n]["expected"])
        for n in accepted()
    )


@pytest.mark.parametrize("name", accepted())
def test_a_genuine_message_is_read_exactly(name):
    read, body, fields, shelf = read_case(name)
    envelope = read({}, body)
    assert envelope.topic_arn == fields["TopicArn"]
    assert envelope.sns_message_id == fields["MessageId"]
    assert envelope.at == datetime.fromisoformat(fields["Timestamp"])
    if isinstance(envelope, Notification):
        assert envelope.text == fields["Message"]
    else:
        assert isinstance(envelope, SubscriptionOffer)
        assert envelope.token == fields["Token"]
    assert len(shelf.asked) == 1


@pytest.mark.parametrize("name", accepted())
def test_its_certificate_is_refused_today(name):
    read, body, _, _ = read_case(name, now=datetime.fromisoformat("2026-11-29T00:00:00Z"))
    with pytest.raises(NotGenuine, match="bad_certificate"):
        read({}, body)


@pytest.mark.parametrize("name", accepted())
def test_it_is_refused_once_its_text_is_dumped_again_or_its_plus_signs_became_spaces(name):
    read, body, fields, _ = read_case(name)
    with pytest.raises(NotGenuine, match="bad_signature"):
        read({}, body_of(fields | {"Message": fields["Message"] + " "}))
    if "+" in fields["Signature"]:
        with pytest.raises(NotGenuine, match="bad_signature"):
            read({}, body.replace(b"+", b" "))


@pytest.mark.parametrize("name", [n for n, entry in FILES.items() if not entry["verified"]])
def test_a_message_that_was_edited_after_signing_is_refused(name):
    read, body, _, _ = read_case(name)
    with pytest.raises(NotGenuine, match="bad_signature"):
        read({}, body)


@pytest.mark.parametrize("name", REFUSED)
def test_a_signature_that_holds_does_not_help_a_small_key_or_another_address(name):
    read, body, fields, shelf = read_case(name)
    pem = (SIGNED / str(FILES[name]["cert"])).read_bytes()
    assert verify(x509.load_pem_x509_certificate(pem).public_key(), fields)  # type: ignore
    with pytest.raises(NotGenuine) as refusal:
        read({}, body)
    assert refusal.value.cause == REFUSED[name]
    assert bool(shelf.asked) == (REFUSED[name] != "certificate_address")


def test_each_of_the_listed_certificate_addresses_is_judged_without_a_request_when_refused():
    urls = index(SIGNED / "signing_cert_urls.json")["urls"]
    seen = set()
    for entry in urls:
        url, expect = entry["url"], str(entry["expect"])
        for topic in [
            "arn:aws:sns:us-east-1:123456789012:t",
            "arn:aws-cn:sns:cn-north-1:123456789012:t",
            "arn:aws:sns:eu-west-1:123456789012:t",
        ]:
            shelf = Shelf({str(url): certificate()})
            body = body_of(sign(notification(TopicArn=topic)) | {"SigningCertURL": url})
            read = make_reader(shelf, topics=(topic,))
            if topic.split(":")[3] in str(url) and expect == "accept":
                assert read({}, body), entry
                seen.add(url)
            elif expect != "either":
                with pytest.raises(EnvelopeRefused) as refusal:
                    read({}, body)
                assert refusal.value.cause in ("certificate_address", "bad_field"), entry
                assert shelf.asked == [], entry
    assert len(seen) == sum(entry["expect"] == "accept" for entry in urls)


def envelopes() -> dict[str, dict[str, object]]:
    found = {}
    for entry in index(CASES / "events" / "index.json").get("events", []):
        if entry["layer"] in ("sns_envelope", "http_request"):
            found[str(entry["file"])] = entry
    return found


ENVELOPES = envelopes()


@pytest.mark.parametrize("name", ENVELOPES)
def test_a_whole_request_gets_the_answer_that_the_case_states(name):
    case = index(CASES / "events" / name)
    headers = {key.lower(): value for key, value in dict(case.get("headers", {})).items()}
    shelf = Shelf({CERTIFICATE_URL: certificate()})
    outcome = answer(make_reader(shelf, versions=("1", "2")), headers, posted(case))
    stated = str(ENVELOPES[name]["expect"]["http"])  # type: ignore
    allowed = {"200": {200}, "403": {403}, "4xx": {400, 403}, "200 or 4xx": {200, 400, 403}}
    assert outcome in allowed[stated]


def posted(case: dict) -> bytes:
    """Give the body that the case describes, signed where it says so."""
    if "body_text" in case:
        return str(case["body_text"]).encode()
    if "body_base64" in case:
        return base64.b64decode(case["body_base64"])
    envelope = dict(case["envelope"])
    if envelope.get("Signature") == "SIGN-ME":
        version = envelope.get("SignatureVersion", "1")
        url = str(envelope["SigningCertURL"]).replace(
            "SimpleNotificationService-SIGN-ME.pem", CERTIFICATE_FILE
        )
        envelope = sign(envelope, str(version), url=url) | {"SignatureVersion": version}
    text = json.dumps(envelope, ensure_ascii=False)
    return base64.b64decode(case.get("body_prefix_base64", "")) + text.encode(
        case.get("body_encoding", "utf-8")
    )


def answer(read, headers, body) -> int:
    try:
        envelope = read(headers, body)
    except MalformedEnvelope:
        return 400
    except NotGenuine:
        return 403
    assert isinstance(envelope, Notification | SubscriptionOffer | UnsubscribeNotice)
    return 200
