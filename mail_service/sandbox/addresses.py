"""Reading email addresses the way SES does, with SES's words for what is wrong."""

import re
from email.utils import parseaddr

from mail_service.sandbox.ses_errors import bad_request

_PLAIN = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]+@(?:[A-Za-z0-9-]+\.)*[A-Za-z0-9-]+", re.ASCII)
_LOCAL = re.compile(r"[\w.!#$%&'*+/=?^`{|}~-]+|\"[^\"\\]+\"", re.ASCII)
_DOMAIN = re.compile(r"[A-Za-z0-9.-]+")
_BLANK = re.compile(r"[\s\x00-\x1f\x7f\u200b-\u200f\u2060\ufeff]")


def bare_address(text: str) -> str:
    """The address inside `text` without display name; a BadRequestException when there is none."""
    if _PLAIN.fullmatch(text):
        return text
    if text.rstrip().endswith(">") and "<" in text:
        name, address = parseaddr(text)
        if not name.isascii():
            raise bad_request("Missing final '@domain'")
    else:
        address = text
    _check(address)
    return address


def _check(address: str) -> None:
    if "@" not in address:
        raise bad_request("Missing final '@domain'")
    local, _, domain = address.rpartition("@")
    if not domain:
        raise bad_request("Missing domain")
    if not local:
        raise bad_request("Missing local part")
    if _BLANK.search(local) and not local.startswith('"'):
        raise bad_request("Local address contains control or whitespace")
    if _BLANK.search(domain):
        raise bad_request("Domain contains control or whitespace")
    if not address.isascii():
        raise bad_request("There are non-ASCII characters in the email address")
    if not _LOCAL.fullmatch(local):
        raise bad_request("Local address contains illegal character")
    if domain.endswith("."):
        raise bad_request("Domain ends with dot")
    if domain.startswith(".") or ".." in domain:
        raise bad_request("Domain contains dot-dot")
    if not _DOMAIN.fullmatch(domain):
        raise bad_request("Domain contains illegal character")
