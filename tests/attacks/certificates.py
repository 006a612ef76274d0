"""W5, W6: what stands at the good address, when it is not SNS's certificate."""

from datetime import timedelta

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509 import load_pem_x509_certificate
from cryptography.x509.oid import NameOID

from tests.attacks.attack import Attacks, attack, harmful
from tests.signing import NOW, certificate, rsa_key, sign

DAY = timedelta(days=1)
CHAIN = certificate(rsa_key(number=1), common_name="Amazon RSA 2048 M01", authority=True)
KEY_ONLY = rsa_key().private_bytes(
    serialization.Encoding.PEM,
    serialization.PrivateFormat.PKCS8,
    serialization.NoEncryption(),
)
PUBLIC_ONLY = (
    rsa_key()
    .public_key()
    .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
)


def issued_by(organisation: str | None, **dates: object) -> bytes:
    """Give a certificate whose issuer claims to be this organisation."""
    names = {NameOID.COMMON_NAME: "A Server CA"}
    if organisation is not None:
        names[NameOID.ORGANIZATION_NAME] = organisation
    return certificate(issuer=names, **dates)  # type: ignore - dates are not_before, not_after


def of_bits(bits: int) -> bytes:
    """Give a certificate whose modulus has this length; nobody holds its key."""
    numbers = rsa.RSAPublicNumbers(65537, (1 << (bits - 1)) | 1)
    return certificate(public_key=numbers.public_key())


BAD = {
    "empty": b"",
    "garbage": b"\x00\xff" * 100,
    "a page": b"<html>not found</html>",
    "private key only": KEY_ONLY,
    "public key only": PUBLIC_ONLY,
    "cut short": certificate()[:-80],
    "PEM of nonsense": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    "DER": load_pem_x509_certificate(certificate()).public_bytes(serialization.Encoding.DER),
    "EC key": certificate(ec.generate_private_key(ec.SECP256R1())),
    "512 bits": of_bits(512),
    "1024 bits": certificate(rsa_key(1024)),
    "2047 bits": of_bits(2047),
    "16384 bits": of_bits(16384),
    "not yet valid": certificate(not_before=NOW + DAY),
    "expired": certificate(not_after=NOW - DAY),
    "expired a second ago": certificate(not_after=NOW - timedelta(seconds=1)),
    "wrong subject": certificate(common_name="sqs.amazonaws.com"),
    "look-alike subject": certificate(common_name="sns.amazonaws.com.evil.example"),
    "subject with NUL": certificate(common_name="sns.amazonaws.com\0.evil.example"),
    "subject with a space": certificate(common_name="sns.amazonaws.com "),
    "other region": certificate(common_name="sns.us-east-1.amazonaws.com"),
    "wildcard": certificate(common_name="*.amazonaws.com"),
    "no name": certificate(common_name=None),
    "self-signed": certificate(self_signed=True),
    "self-signed in Amazon's name": certificate(organisation="Amazon", self_signed=True),
    "an authority's": certificate(authority=True),
    "other issuer": issued_by("Let's Encrypt"),
    "look-alike issuer": issued_by("Amazon Web Services"),
    "issuer without organisation": issued_by(None),
    "historic issuer today": issued_by("VeriSign, Inc."),
    "two signers": certificate() + certificate(rsa_key(number=1)),
    "chain first": CHAIN + certificate(),
}


def attacks() -> Attacks:
    """Give each certificate under a message that its key may well have signed."""
    for name, pem in BAD.items():
        yield attack("W5", name, sign(harmful()), "bad_certificate", pem=pem)
    theirs = rsa_key(number=1)
    forged = sign(harmful(), key=theirs)
    for name, pem in (
        ("self-signed", certificate(theirs, self_signed=True)),
        ("for another name", certificate(theirs, common_name="evil.example")),
        ("by another issuer", certificate(theirs, issuer={NameOID.ORGANIZATION_NAME: "Evil"})),
        ("out of date", certificate(theirs, not_after=NOW - DAY)),
    ):
        yield attack("W6", f"a stranger's key, {name}", forged, "bad_certificate", pem=pem)
