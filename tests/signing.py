"""A signer of SNS messages for tests, written apart from the code that verifies them.

It joins the fields by hand, so a mistake in ``mail_service.gateways.sns`` is not repeated here.
"""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import NameOID

from mail_service.errors import Unavailable
from mail_service.gateways.certificates import CertificateCache
from mail_service.gateways.sns import SnsReader

REPOSITORY = Path(__file__).resolve().parents[1]
NOW = datetime(2026, 7, 29, 12, 30, tzinfo=UTC)
TOPIC = "arn:aws:sns:eu-west-1:123456789012:ses-events"
FOREIGN_TOPIC = "arn:aws:sns:eu-west-1:999999999999:ses-events"
CERTIFICATE_FILE = "SimpleNotificationService-0123456789abcdef0123456789abcdef.pem"
CERTIFICATE_URL = f"https://sns.eu-west-1.amazonaws.com/{CERTIFICATE_FILE}"
HASHES = {"1": hashes.SHA1(), "2": hashes.SHA256()}

Envelope = dict[str, object]


@cache
def rsa_key(bits: int = 2048, number: int = 0) -> rsa.RSAPrivateKey:
    """Give the session's key; ``number`` tells several of one size apart."""
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def certificate(
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | None = None,
    *,
    common_name: str | None = "sns.amazonaws.com",
    organisation: str | None = None,
    alternative_names: tuple[str, ...] = (),
    issuer: Mapping[x509.ObjectIdentifier, str] | None = None,
    not_before: datetime = NOW - timedelta(days=30),
    not_after: datetime = NOW + timedelta(days=300),
    authority: bool | None = None,
    self_signed: bool = False,
    public_key: rsa.RSAPublicKey | None = None,
) -> bytes:
    """Give a certificate in PEM; as it stands it looks like one of AWS's.

    ``public_key`` stands in it in place of the key's own, for keys that nobody holds.
    """
    key = key or rsa_key()
    named = {NameOID.COMMON_NAME: common_name, NameOID.ORGANIZATION_NAME: organisation}
    subject = x509.Name([x509.NameAttribute(oid, text) for oid, text in named.items() if text])
    issuer_names = issuer or {
        NameOID.ORGANIZATION_NAME: "Amazon",
        NameOID.COMMON_NAME: "Amazon RSA 2048 M01",
    }
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(
            subject
            if self_signed
            else x509.Name([x509.NameAttribute(oid, text) for oid, text in issuer_names.items()])
        )
        .public_key(public_key or key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(not_before)
        .not_valid_after(not_after)
    )
    if alternative_names:
        builder = builder.add_extension(
            x509.SubjectAlternativeName([x509.DNSName(name) for name in alternative_names]),
            critical=False,
        )
    if authority is not None:
        builder = builder.add_extension(
            x509.BasicConstraints(ca=authority, path_length=None), critical=True
        )
    signing_key = (
        key if not isinstance(key, rsa.RSAPrivateKey) or key.key_size >= 1024 else rsa_key()
    )
    return builder.sign(signing_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def string_to_sign(envelope: Mapping[str, object]) -> str:
    """Give what SNS signs of this envelope, after AWS's description; what is missing is blank."""

    def line(name: str) -> str:
        return f"{name}\n{envelope.get(name, '')}\n"

    text = line("Message") + line("MessageId")
    if envelope.get("Type") in ("SubscriptionConfirmation", "UnsubscribeConfirmation"):
        text += line("SubscribeURL") + line("Timestamp") + line("Token")
    else:
        text += line("Subject") if envelope.get("Subject") is not None else ""
        text += line("Timestamp")
    return text + line("TopicArn") + line("Type")


def signature_of(text: str, version: str = "2", key: rsa.RSAPrivateKey | None = None) -> str:
    signed = (key or rsa_key()).sign(text.encode(), padding.PKCS1v15(), HASHES[version])
    return base64.b64encode(signed).decode()


def sign(
    envelope: Mapping[str, object],
    version: str = "2",
    *,
    key: rsa.RSAPrivateKey | None = None,
    url: str = CERTIFICATE_URL,
) -> Envelope:
    """Give the envelope with the three fields that carry its signature."""
    return {
        **envelope,
        "SignatureVersion": version,
        "Signature": signature_of(string_to_sign(envelope), version, key),
        "SigningCertURL": url,
    }


def notification(message: str = "{}", **fields: object) -> Envelope:
    """Give an unsigned Notification of our topic."""
    return {
        "Type": "Notification",
        "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
        "TopicArn": TOPIC,
        "Message": message,
        "Timestamp": "2026-07-29T12:01:01.000Z",
        "UnsubscribeURL": "https://sns.eu-west-1.amazonaws.com/?Action=Unsubscribe",
        **fields,
    }


def confirmation(kind: str = "SubscriptionConfirmation", **fields: object) -> Envelope:
    """Give an unsigned confirmation of either kind for our topic."""
    return {
        "Type": kind,
        "MessageId": "47138184-6831-46b8-8f7c-afc488602d7d",
        "Token": "2336412f37fb687f5d51e6e241d09c80",
        "TopicArn": TOPIC,
        "Message": "You have chosen to subscribe.\nVisit the SubscribeURL.",
        "SubscribeURL": "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription",
        "Timestamp": "2026-07-29T12:01:01.000Z",
        **fields,
    }


def body_of(envelope: object) -> bytes:
    return json.dumps(envelope, ensure_ascii=False).encode()


@dataclass
class Shelf:
    """Hands out certificates by address and records who asked for what."""

    pems: Mapping[str, bytes | Exception] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def __call__(self, address: str) -> bytes:
        self.asked.append(address)
        found = self.pems.get(address, Unavailable("no such certificate here"))
        if isinstance(found, Exception):
            raise found
        return found


def make_reader(
    shelf: Shelf | None = None,
    *,
    topics: tuple[str, ...] = (TOPIC,),
    versions: tuple[str, ...] = ("2",),
    origins: tuple[str, ...] = (),
    max_bytes: int = 1_572_864,
    clock: Callable[[], datetime] = lambda: NOW,
    elapsed: Callable[[], float] = lambda: 0.0,
) -> SnsReader:
    """Give a reader of our topic whose one certificate is :func:`certificate`'s."""
    return SnsReader(
        topic_arns=frozenset(topics),
        signature_versions=frozenset(versions),
        certificates=CertificateCache(
            shelf if shelf is not None else Shelf({CERTIFICATE_URL: certificate()}), elapsed=elapsed
        ),
        max_bytes=max_bytes,
        clock=clock,
        certificate_origins=origins,
    )
