"""Our verdicts beside those of npm's sns-validator, AWS's own, on messages that we sign.

Where both agree we have not misread AWS's procedure. Where they differ the reason is stated, and
both verdicts are held, so that a change on either side is seen.
"""

from collections.abc import Iterator

import pytest

from mail_service.errors import EnvelopeRefused
from tests.differential.conftest import Npm
from tests.signing import (
    CERTIFICATE_FILE,
    CERTIFICATE_URL,
    FOREIGN_TOPIC,
    TOPIC,
    Shelf,
    body_of,
    certificate,
    confirmation,
    make_reader,
    notification,
    rsa_key,
    sign,
    signature_of,
    string_to_sign,
)

pytestmark = pytest.mark.differential
HOST = "https://sns.eu-west-1.amazonaws.com"


def same() -> Iterator[tuple[str, str, object]]:
    """Give name, verdict and envelope where both must say the same."""
    for version in ("1", "2"):
        yield f"notification {version}", "accepted", sign(notification('{"a":"ü ✉"}\n'), version)
        with_subject = notification("x\r\n\t", Subject="a subject, ü")
        yield f"notification with subject {version}", "accepted", sign(with_subject, version)
        yield f"subscription {version}", "accepted", sign(confirmation(), version)
    signed = sign(notification())
    yield "null subject", "accepted", signed | {"Subject": None}
    lambda_ = signed | {"SigningCertUrl": signed["SigningCertURL"]}
    del lambda_["SigningCertURL"]
    yield "Lambda spelling", "accepted", lambda_
    yield "attributes", "accepted", signed | {"MessageAttributes": {"a": {"Type": "String"}}}
    yield "wrong hash", "refused", signed | {"SignatureVersion": "1"}
    yield "version 3", "refused", signed | {"SignatureVersion": "3"}
    yield "version as number", "refused", signed | {"SignatureVersion": 2}
    for name in ("Message", "MessageId", "Timestamp"):
        yield f"changed {name}", "refused", signed | {name: f"{signed[name]}1"}
    for name in signed:
        if name != "UnsubscribeURL":
            yield f"no {name}", "refused", {k: v for k, v in signed.items() if k != name}
    yield "added subject", "refused", signed | {"Subject": "s"}
    unended = signature_of(string_to_sign(notification())[:-1])
    yield "last line feed unsigned", "refused", signed | {"Signature": unended}
    yield "other key", "refused", sign(notification(), key=rsa_key(number=1))
    for address in (
        f"http://sns.eu-west-1.amazonaws.com/{CERTIFICATE_FILE}",
        f"{HOST}.evil.example/{CERTIFICATE_FILE}",
        f"https://evil.example/{CERTIFICATE_FILE}",
        f"https://sns.s3.amazonaws.com.evil.example/{CERTIFICATE_FILE}",
        f"{HOST}:8080/{CERTIFICATE_FILE}",
        f"{HOST}/x.txt",
    ):
        yield f"certificate at {address}", "refused", sign(notification(), url=address)


def recut() -> object:
    tail = f"\nTimestamp\n2026-07-29T12:01:01.000Z\nTopicArn\n{TOPIC}\nType\nNotification"
    number = "c0000000-0000-4000-8000-000000000000"
    true = notification(f"forged\nMessageId\n{number}{tail}", TopicArn=FOREIGN_TOPIC)
    rest = string_to_sign(true).split(tail, 1)[1].removesuffix("\n")
    split = notification("forged", MessageId=number, Type=f"Notification{rest}")
    assert string_to_sign(split) == string_to_sign(true)
    return sign(true) | split


def spaced(signature: object) -> str:
    return f"{str(signature)[:8]} \n{str(signature)[8:]}"


def different() -> Iterator[tuple[str, str, str, object]]:
    """Give name with reason, our verdict, theirs, and the envelope or body."""
    signed = sign(notification())
    # Its list of signed fields for this type lacks Token, against AWS's page.
    yield "unsubscribe", "accepted", "refused", sign(confirmation("UnsubscribeConfirmation"))
    # It adds SubscribeURL, which SNS does not sign in a Notification.
    stray = signed | {"SubscribeURL": "https://example.com"}
    yield "unsigned SubscribeURL", "accepted", "refused", stray
    # All below it takes and we refuse.
    yield "re-cut message", "refused", "accepted", recut()
    yield (
        "topic of another account",
        "refused",
        "accepted",
        sign(notification(TopicArn=FOREIGN_TOPIC)),
    )
    yield "unknown Type", "refused", "accepted", sign(notification(Type="foobar"))
    yield "no time", "refused", "accepted", sign(notification(Timestamp="never"))
    yield "Message as a list", "refused", "accepted", signed | {"Message": ["{}"]}
    yield (
        "MessageId as a list",
        "refused",
        "accepted",
        signed | {"MessageId": [signed["MessageId"]]},
    )
    yield (
        "signature with blanks",
        "refused",
        "accepted",
        signed | {"Signature": spaced(signed["Signature"])},
    )
    body = body_of(signed)
    yield "duplicate key", "refused", "accepted", body[:-1] + b',"Type":"Notification"}'
    both = signed | {"SigningCertUrl": CERTIFICATE_URL, "SigningCertURL": "http://evil.example/"}
    yield "two spellings", "refused", "accepted", both
    for address in (
        f"https://sns.s3-eu-west-1.amazonaws.com/{CERTIFICATE_FILE}",
        f"https://sns.eu-west-9.amazonaws.com/{CERTIFICATE_FILE}",
        f"https://sns.us-east-1.amazonaws.com/{CERTIFICATE_FILE}",
        f"https://x@sns.eu-west-1.amazonaws.com/{CERTIFICATE_FILE}",
        f"{HOST}.cn/{CERTIFICATE_FILE}",
        f"{HOST}/?x=.pem",
        f"{HOST}/other.pem",
        f"{HOST}/a/../{CERTIFICATE_FILE}",
        f"{CERTIFICATE_URL} ",
        f"{CERTIFICATE_URL}\n",
    ):
        yield (
            f"certificate at {address!r}",
            "refused",
            "accepted",
            sign(notification(), url=address),
        )


SAME = {name: (verdict, verdict, envelope) for name, verdict, envelope in same()}
DIFFERENT = {name: (ours, theirs, envelope) for name, ours, theirs, envelope in different()}
ALL = SAME | DIFFERENT
BODIES = {n: e if isinstance(e, bytes) else body_of(e) for n, (_, _, e) in ALL.items()}


@pytest.fixture(scope="session")
def theirs(npm: Npm) -> dict[str, str]:
    """Give npm's verdict on every message, from one run."""
    return npm({name: (body, certificate()) for name, body in BODIES.items()})


def ours(body: bytes) -> str:
    shelf = Shelf({CERTIFICATE_URL: certificate()})
    try:
        make_reader(shelf, versions=("1", "2"))({}, body)
    except EnvelopeRefused:
        return "refused"
    return "accepted"


@pytest.mark.parametrize("name", ALL)
def test_the_verdicts_of_both_are_as_stated(name, theirs):
    expected = ALL[name][:2]
    assert (ours(BODIES[name]), theirs[name]) == expected
