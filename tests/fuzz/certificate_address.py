"""An address is asked for exactly if it is the topic's own; for any other, nothing leaves."""

import json
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from urllib.parse import urlsplit

from urllib3.exceptions import LocationParseError
from urllib3.util import parse_url

from mail_service.errors import EnvelopeRefused, Unavailable
from mail_service.gateways import sns
from tests.fuzz.envelope import Read
from tests.fuzz.inputs import text_of
from tests.signing import CERTIFICATE_FILE, make_reader, notification, sign

HOSTS = {
    "arn:aws:sns:eu-west-1:123456789012:t": "sns.eu-west-1.amazonaws.com",
    "arn:aws-cn:sns:cn-north-1:123456789012:t": "sns.cn-north-1.amazonaws.com.cn",
    "arn:aws-us-gov:sns:us-gov-west-1:123456789012:t": "sns.us-gov-west-1.amazonaws.com",
    "arn:aws-eusc:sns:eusc-de-east-1:123456789012:t": "sns.eusc-de-east-1.amazonaws.eu",
}
TOKENS = (
    *HOSTS,
    *HOSTS.values(),
    *(
        "https://",
        "http://",
        "/../",
        "%2e",
        "\\",
        "@",
        ":443",
        "?",
        "#",
        ".pem",
        "\u017f",
        "\uff53",
    ),
    *("s3", "sns.", ".cn", "[::1]", "SimpleNotificationService-", CERTIFICATE_FILE),
)


def check(data: bytes, host_of: Callable[[str], str | None] = sns.signing_host) -> None:
    """The first byte names a topic; the rest is its certificate's address, and another topic's ARN."""
    number, text = (data[0] if data else 0) % len(HOSTS), text_of(data[1:])
    topic, host = list(HOSTS.items())[number]
    asked: list[str] = []

    def fetch(address: str) -> bytes:
        asked.append(address)
        raise Unavailable("far away")

    minutes = count()
    read = make_reader(fetch, topics=(topic,), elapsed=lambda: 60.0 * next(minutes))
    said = _answer(read, json.dumps(_signed(topic) | {"SigningCertURL": text}).encode())
    if _is_at(host, text):
        assert (said, asked) == ("asked", [text])
    else:
        assert said in {"certificate_address", "control_character", "bad_field"}, said
        assert asked == []
    made = host_of(text)
    if made is not None:
        _holds_of_host(made, text)


def _answer(read: Read, body: bytes) -> str:
    try:
        read({}, body)
    except Unavailable:
        return "asked"
    except EnvelopeRefused as refused:
        return refused.cause
    return "believed without a certificate"


@cache
def _signed(topic: str) -> dict[str, object]:
    return sign(notification(TopicArn=topic))


def _is_at(host: str, text: str) -> bool:
    """Say so without any expression: piece by piece, and two parsers must see the same."""
    start, end = f"https://{host}/SimpleNotificationService-", ".pem"
    number = text[len(start) : -len(end)]
    if not (text.startswith(start) and text.endswith(end) and len(number) == 32):
        return False
    if not all(c in "0123456789abcdef" for c in number):
        return False
    for parts in (urlsplit(text), parse_url(text)):
        assert (parts.scheme, parts.hostname, parts.port) == ("https", host, None)
        assert not parts.query
        assert not parts.fragment
    return True


def _holds_of_host(host: str, arn: str) -> None:
    """Whatever an ARN holds, the host made of it is SNS's in the region it names."""
    first, region, *rest = host.split(".")
    assert first == "sns"
    assert arn.split(":")[3:4] == [region]
    assert rest in (["amazonaws", "com"], ["amazonaws", "com", "cn"], ["amazonaws", "eu"])
    assert all(c in "abcdefghijklmnopqrstuvwxyz0123456789-" for c in region)
    try:
        assert parse_url(f"https://{host}/x").host == host
    except LocationParseError:
        raise AssertionError(f"{host!r} is no host") from None
    assert urlsplit(f"https://{host}/x").netloc == host


def seeds() -> Iterator[bytes]:
    """Give each topic's good address, near misses, and the ARNs."""
    for number, (topic, host) in enumerate(HOSTS.items()):
        good = f"https://{host}/{CERTIFICATE_FILE}"
        for text in (good, f"{good}?", good.replace("sns.", "x@sns."), f"{good} ", topic):
            yield bytes([number]) + text.encode()
