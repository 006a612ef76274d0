"""Signing as SNS does it, with a key and a certificate of the sandbox's own."""

import base64
import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

_NOTIFICATION = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_CONFIRMATION = (
    "Message",
    "MessageId",
    "SubscribeURL",
    "Timestamp",
    "Token",
    "TopicArn",
    "Type",
)
_COMMON_NAME = "sns.amazonaws.com"


def signed_text(fields: Mapping[str, str]) -> bytes:
    """What a signature covers: names and values in byte order, each ended by a newline."""
    names = _NOTIFICATION if fields.get("Type") == "Notification" else _CONFIRMATION
    return "".join(f"{name}\n{fields[name]}\n" for name in names if name in fields).encode()


class Signer:
    """An RSA-2048 key with its self-signed certificate."""

    def __init__(self, key: rsa.RSAPrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self.certificate_pem = certificate.public_bytes(serialization.Encoding.PEM)
        digest = hashlib.sha256(self.certificate_pem).hexdigest()[:32]
        self.certificate_path = f"/SimpleNotificationService-{digest}.pem"

    @classmethod
    def generate(cls, common_name: str = _COMMON_NAME) -> "Signer":
        """A new signer that shares its key with nobody."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=365))
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(common_name)]), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(key, certificate)

    def signature(self, fields: Mapping[str, str], version: str) -> str:
        """The base64 signature of an envelope's fields: SHA-1 for version 1, else SHA-256."""
        # Version 1 is SHA-1 because SNS says so; receivers must be able to meet it.
        digest = hashes.SHA1() if version == "1" else hashes.SHA256()  # noqa: S303
        signature = self._key.sign(signed_text(fields), padding.PKCS1v15(), digest)
        return base64.b64encode(signature).decode("ascii")
