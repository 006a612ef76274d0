"""Addresses: what we are willing to write to, and how two spellings are known to be one mailbox.

An address is stored as it goes on the wire: trimmed, local part as given, domain lower-case
punycode. Its match key has the local part lower-cased too, because SES and mailbox providers ignore
case there; the keyed hash of the match key is what survives erasure.
"""

import hmac
import re
from email.charset import Charset
from email.errors import MessageError
from email.header import decode_header, make_header
from email.utils import formataddr

import idna
from email_validator import SPECIAL_USE_DOMAIN_NAMES, EmailNotValidError, validate_email

RESERVED_DOMAINS = ("test", "invalid", "local")
"""Top-level names of RFC 2606 and RFC 6762 that no mail can reach; refused in production."""

_MAX_LENGTH = 254  # RFC 5321 4.5.3.1.3, less the angle brackets
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_EVERYDAY = re.compile(r"[a-z0-9]+(?:[._+-][a-z0-9]+)*@(?:[a-z0-9]+(?:-[a-z0-9]+)*\.)+[a-z]{2,}")
_EVERYDAY_LENGTH = 64
_SPECIAL = {name.rpartition(".")[2] for name in SPECIAL_USE_DOMAIN_NAMES}
_NAMED = re.compile(r"^\s*(?P<name>[^<>]*?)\s*<(?P<address>[^<>]*)>\s*$")


class AddressInvalid(ValueError):
    """The text is no address we can write to. The message says what was expected, without it."""


def normalise(text: str, *, allow_reserved: bool) -> str:
    """Give the address as it goes on the wire, or raise :class:`AddressInvalid`.

    SES takes ASCII local parts only, and domains in punycode (SES API reference, SendEmail).
    """
    # Length first: no expression below should meet a megabyte.
    trimmed = text.strip(" \t")
    if not trimmed or len(trimmed) > _MAX_LENGTH:
        raise AddressInvalid(f"expected an email address of 1 to {_MAX_LENGTH} characters")
    return trimmed if is_everyday(trimmed) else checked(trimmed, allow_reserved=allow_reserved)


def is_everyday(text: str) -> bool:
    """Whether this is one of the addresses that :func:`checked` would give back as they are.

    Nearly all are, and the library's answer costs as much as rendering a mail. No part can be too long
    in so few characters.
    """
    everyday = len(text) <= _EVERYDAY_LENGTH and _EVERYDAY.fullmatch(text)
    return bool(everyday) and text.rpartition(".")[2] not in _SPECIAL


def checked(trimmed: str, *, allow_reserved: bool) -> str:
    """Give the address as the library and we want it, or raise :class:`AddressInvalid`."""
    stem, dot, top = trimmed.rpartition(".")
    reserved = bool(dot) and top.lower() in RESERVED_DOMAINS
    if reserved and not allow_reserved:
        raise AddressInvalid("expected a public domain: this one is reserved for tests")
    try:
        # The library lets only .test through, so the other reserved names are checked under it.
        parsed = validate_email(
            f"{stem}.test" if reserved else trimmed,
            check_deliverability=False,
            allow_smtputf8=True,
            allow_quoted_local=False,
            allow_domain_literal=False,
            allow_display_name=False,
            test_environment=True,
            globally_deliverable=False,
        )
    except EmailNotValidError as problem:
        raise AddressInvalid("expected one email address such as ada@example.com") from problem
    if not parsed.local_part.isascii():
        raise AddressInvalid("expected an ASCII local part: SES takes no other")
    if "=?" in parsed.local_part:
        # Lawful letters, but mail software that decodes them there writes a header of its own.
        raise AddressInvalid("expected a local part that is no encoded word (=?...?=)")
    if len(parsed.local_part) > 64:
        raise AddressInvalid("expected at most 64 characters before the @")  # RFC 5321 4.5.3.1.1
    domain = str(parsed.ascii_domain).lower()
    if "." not in domain:
        raise AddressInvalid("expected a domain with a dot")
    if reserved:
        domain = f"{domain.removesuffix('.test')}.{top.lower()}"
    return f"{parsed.local_part}@{domain}"


def match_key(text: str) -> str | None:
    """Give the one spelling under which a mailbox is known, or None if the text is no address.

    Takes what mail servers report: ``Name <a@b>``, ``<a@b>``, capitals, Unicode domains.
    """
    named = _NAMED.match(text) if len(text) <= 1000 else None
    bare = (named["address"] if named else text).strip()
    local, at, domain = bare.rpartition("@")
    if not at or not local or not domain or len(bare) > _MAX_LENGTH:
        return None
    if any(c.isspace() or not c.isprintable() or c in '<>";:,()' for c in local):
        return None
    if not domain.isascii():
        try:
            domain = idna.encode(domain, uts46=True).decode("ascii")
        except idna.IDNAError:
            return None
    domain = domain.lower().rstrip(".")
    if not re.fullmatch(r"[a-z0-9._-]+", domain):
        return None
    key = f"{local.lower()}@{domain}"
    # Some letters are two in lower case, and punycode is longer: a key must be its own key.
    return key if len(key) <= _MAX_LENGTH else None


def keyed_hash(key: bytes, address: str) -> bytes:
    """Give the 32 bytes under which this mailbox is known after its address was erased."""
    matched = match_key(address)
    if matched is None:
        raise AddressInvalid("expected an email address")
    return hmac.digest(key, matched.encode(), "sha256")


def split_sender(text: str) -> tuple[str, str]:
    """Split ``Name <a@b>`` or ``a@b`` into display name (may be empty) and address text."""
    named = _NAMED.match(text)
    if named is None:
        return "", text.strip()
    return named["name"].strip().strip('"'), named["address"].strip()


def format_sender(name: str, address: str) -> str:
    """Give the From value for SES: an encoded word where the name is not ASCII (RFC 2047).

    A name that is encoded already is decoded first, so that it stands for the same text. Raises
    AddressInvalid for one that can't be, or that holds a line end or another control, plain or
    encoded: what follows it would be a header of its own to whoever decodes it.
    """
    shown = name
    if "=?" in name and not CONTROL.search(name):
        shown = _decoded(name)
    if CONTROL.search(shown):
        raise AddressInvalid("expected a display name without control characters")
    if "=?" in shown:  # or it would be taken for an encoded word
        return f"{Charset('utf-8').header_encode(shown)} <{address}>"
    return formataddr((shown, address), charset="utf-8") if shown else address


def _decoded(name: str) -> str:
    try:
        return str(make_header(decode_header(name)))
    except (MessageError, LookupError, ValueError) as problem:
        raise AddressInvalid("expected a display name as text, or encoded by RFC 2047") from problem
