"""Believing an SNS request: the checks of design.md section 8, in that order, cheapest first.

A signature of SNS proves that some topic of some account said this; the allowlist makes it ours.
The certificate's address is rebuilt rather than filtered: no two parsers of addresses agree.

Causes of MalformedEnvelope (400): ``too_large`` (413), ``not_json``, ``raw_delivery`` (an SES event
without envelope), ``bad_field`` (missing, of a wrong type, or no text), ``control_character``,
``bad_time``, ``unknown_type``, ``header_mismatch``.
Causes of NotGenuine (403): ``foreign_topic``, ``certificate_address``, ``signature_version``,
``bad_certificate``, ``bad_signature``.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TypeGuard

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from mail_service.domain.events import Envelope, Notification, SubscriptionOffer, UnsubscribeNotice
from mail_service.domain.strict_json import read_time, strict_loads
from mail_service.errors import MalformedEnvelope, NotGenuine
from mail_service.gateways.certificates import CertificateCache

_CONFIRMATION = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")
_SIGNED = {
    "Notification": ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"),
    "SubscriptionConfirmation": _CONFIRMATION,
    "UnsubscribeConfirmation": _CONFIRMATION,
}
"""What is signed, in that order (Amazon SNS Developer Guide, "Verifying the signatures of Amazon
SNS messages")."""

_ALWAYS = (
    *("Type", "MessageId", "TopicArn", "Message", "Timestamp"),
    *("SignatureVersion", "Signature", "SigningCertURL"),
)
_SOMETIMES = ("Subject", "Token", "SubscribeURL", "UnsubscribeURL")
_FREE_TEXT = ("Message", "Subject")
_LAMBDA_SPELLINGS = {"SigningCertUrl": "SigningCertURL", "UnsubscribeUrl": "UnsubscribeURL"}
_EVENT_KEYS = {"eventType", "notificationType", "mail"}
_HEADERS = {
    "x-amz-sns-message-type": "Type",
    "x-amz-sns-topic-arn": "TopicArn",
    "x-amz-sns-message-id": "MessageId",
}

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_WORD = re.compile(r"[!-~]{1,256}")
_SECRET = re.compile(r"[!-~]{1,4096}")
_REGION = re.compile(r"[a-z]{2,8}(?:-[a-z]{1,16}){1,3}-[0-9]{1,2}")
_CERTIFICATE_FILE = re.compile(r"/(SimpleNotificationService-[0-9a-f]{32}\.pem)\Z")
_HASHES = {"1": hashes.SHA1(), "2": hashes.SHA256()}  # noqa: S303 (only where the operator allows "1")
_MAX_SIGNATURE = 1368  # base64 of 8192 bits


class SnsReader:
    """Reads SNS requests (:class:`mail_service.ports.ReadEnvelope`) of the allowed topics."""

    def __init__(
        self,
        *,
        topic_arns: frozenset[str],
        signature_versions: frozenset[str],
        certificates: CertificateCache,
        max_bytes: int,
        clock: Callable[[], datetime],
        certificate_origins: tuple[str, ...] = (),
    ) -> None:
        self._topic_arns = topic_arns
        self._versions = signature_versions & _HASHES.keys()
        self._certificates = certificates
        self._max_bytes = max_bytes
        self._clock = clock
        self._test_origins = frozenset(origin.rstrip("/") for origin in certificate_origins)

    def __call__(self, headers: Mapping[str, str], body: bytes) -> Envelope:
        """Give the genuine envelope, or raise MalformedEnvelope, NotGenuine or Unavailable.

        ``headers`` have lower-case names. Age is no check: a redriven message may be days old.
        """
        if len(body) > self._max_bytes:
            raise MalformedEnvelope("too_large", f"over {self._max_bytes} bytes")
        fields = _read_fields(_read_object(headers, body))
        at = read_time(fields["Timestamp"])
        if at is None:
            raise MalformedEnvelope("bad_time", "the Timestamp is no time")
        self._check_ours(headers, fields)
        self._check_signature(fields)
        return _envelope(fields, at)

    def _check_ours(self, headers: Mapping[str, str], fields: Mapping[str, str]) -> None:
        missing = [
            name for name in _SIGNED.get(fields["Type"], ()) if name not in (*fields, "Subject")
        ]
        if fields["Type"] not in _SIGNED:
            raise MalformedEnvelope("unknown_type", "the Type is none of SNS's three")
        if missing:
            raise MalformedEnvelope("bad_field", f"{missing[0]} is missing")
        if fields["TopicArn"] not in self._topic_arns:
            raise NotGenuine("foreign_topic", "the TopicArn is not in SNS_TOPIC_ARNS")
        for header, name in _HEADERS.items():
            if headers.get(header, fields[name]) != fields[name]:
                raise MalformedEnvelope(
                    "header_mismatch", f"{header} is not the {name} of the body"
                )

    def _check_signature(self, fields: Mapping[str, str]) -> None:
        address, version = fields["SigningCertURL"], fields["SignatureVersion"]
        names = self._certificate_names(address, fields["TopicArn"])
        if version not in self._versions:
            raise NotGenuine(
                "signature_version",
                "SNS_SIGNATURE_VERSIONS does not list the message's; set the attribute"
                f" SignatureVersion=2 on the topic {fields['TopicArn']}",
            )
        now = self._clock()
        key = self._certificates.key_for(address, names=names, now=now)
        if verify(key.public_key, fields):
            return
        newer = self._certificates.newer_key(address, names=names, now=now, than=key)
        if newer is None or not verify(newer.public_key, fields):
            raise NotGenuine("bad_signature", "the signature does not fit")

    def _certificate_names(self, address: str, topic_arn: str) -> frozenset[str] | None:
        """Give the names a certificate from there must bear (None: any), or raise NotGenuine."""
        found = _CERTIFICATE_FILE.search(address)
        if found is not None:
            host = signing_host(topic_arn)
            if host is not None and address == f"https://{host}/{found[1]}":
                return frozenset({"sns.amazonaws.com", host})
            if address[: found.start()] in self._test_origins:
                return None
        raise NotGenuine("certificate_address", "not where SNS keeps the topic's certificates")


def signing_host(topic_arn: str) -> str | None:
    """Give the one host that may serve a topic's certificate; None if the ARN names no region.

    Suffixes from botocore's table of partitions; its isolated ones are left out: they have no
    internet.
    """
    parts = topic_arn.split(":")
    region = parts[3] if len(parts) == 6 else ""
    if _REGION.fullmatch(region) is None:
        return None
    suffixes = {"cn": "amazonaws.com.cn", "eusc": "amazonaws.eu"}
    return f"sns.{region}.{suffixes.get(region.partition('-')[0], 'amazonaws.com')}"


def signed_text(fields: Mapping[str, str]) -> bytes:
    """Give the bytes that SNS signs: each name and each value ends in a line feed, the last too."""
    present = [name for name in _SIGNED[fields["Type"]] if name in fields]
    return "".join(f"{name}\n{fields[name]}\n" for name in present).encode()


def verify(key: rsa.RSAPublicKey, fields: Mapping[str, str]) -> bool:
    """Say whether this key signed it: RSA PKCS#1 v1.5 over SHA-1 ("1") or SHA-256 ("2")."""
    text = fields["Signature"]
    if len(text) > _MAX_SIGNATURE:
        return False
    try:
        signature = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    if base64.b64encode(signature) != text.encode():  # one spelling for each signature
        return False
    try:
        key.verify(
            signature, signed_text(fields), padding.PKCS1v15(), _HASHES[fields["SignatureVersion"]]
        )
    except InvalidSignature:
        return False
    return True


def _read_object(headers: Mapping[str, str], body: bytes) -> dict[str, object]:
    """Give the body's object: UTF-8, whatever Content-Type says, no BOM (RFC 8259 section 8.1)."""
    raw = headers.get("x-amz-sns-rawdelivery", "").lower() == "true"
    value: object = None
    try:
        value = strict_loads(body.decode("utf-8"))
    except ValueError as problem:
        # Its text stays out of the log: it may quote the body.
        if not raw:
            raise MalformedEnvelope("not_json", type(problem).__name__) from None
    members = value if _is_object(value) else {}
    if "Type" not in members and (raw or _EVENT_KEYS & members.keys()):
        raise MalformedEnvelope(
            "raw_delivery",
            "the body is not signed: turn raw message delivery off on the topic's subscription",
        )
    if not _is_object(value):
        raise MalformedEnvelope("not_json", "JSON, but not an object")
    return value


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def _read_fields(members: dict[str, object]) -> dict[str, str]:
    """Give the fields that SNS documents, each a real string; other members are not looked at.

    Copies that went through Lambda spell two names differently and have ``"Subject": null``.
    """
    for spelling, name in _LAMBDA_SPELLINGS.items():
        if spelling in members:
            if name in members:
                raise MalformedEnvelope("bad_field", f"{name} stands in two spellings")
            members[name] = members[spelling]
    if members.get("Subject", "") is None:
        del members["Subject"]
    fields: dict[str, str] = {}
    for name in (*_ALWAYS, *_SOMETIMES):
        value = members.get(name)
        if name in members or name in _ALWAYS:
            fields[name] = _text(name, value)
    # Fields are joined by line feeds without lengths. One that holds a line feed could take in the
    # next, and a message of another topic read as one of ours. So a signed text must have one reading:
    # the last of its lines that says MessageId is the name of that field, and all else follows.
    if "MessageId" in fields.get("Subject", "").splitlines():
        raise MalformedEnvelope("control_character", "the Subject holds another field")
    if not _WORD.fullmatch(fields["MessageId"]) or fields["MessageId"] == "MessageId":
        raise MalformedEnvelope("bad_field", "the MessageId is no id")
    if "Token" in fields and not _SECRET.fullmatch(fields["Token"]):
        raise MalformedEnvelope("bad_field", "the Token is no token")
    return fields


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise MalformedEnvelope("bad_field", f"{name} is missing or not a string")
    if name not in _FREE_TEXT and _CONTROL.search(value):
        raise MalformedEnvelope("control_character", f"{name} holds a control character")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise MalformedEnvelope("bad_field", f"{name} holds half a character") from None
    return value


def _envelope(fields: Mapping[str, str], at: datetime) -> Envelope:
    topic_arn, message_id = fields["TopicArn"], fields["MessageId"]
    match fields["Type"]:
        case "Notification":
            return Notification(
                topic_arn=topic_arn, sns_message_id=message_id, at=at, text=fields["Message"]
            )
        case "SubscriptionConfirmation":
            return SubscriptionOffer(
                topic_arn=topic_arn, sns_message_id=message_id, at=at, token=fields["Token"]
            )
        case _:
            return UnsubscribeNotice(topic_arn=topic_arn, sns_message_id=message_id, at=at)
