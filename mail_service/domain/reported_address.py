"""Addresses as other people's mail servers report them, known as the mailboxes we wrote to.

:func:`reported_key` reads one; :func:`named_in` finds all that stand in a text.

SES hands on what stands in the Final-Recipient field of a delivery report, or in a feedback report: the
address as we wrote it, in other capitals, in Unicode, with a name, a comment or quotes around it.
"""

import re
from itertools import pairwise

from mail_service.domain.address import match_key

_MAX_LENGTH = 1000
_TYPED = re.compile(r"\s*(?:rfc822|utf-8)\s*;", re.IGNORECASE)  # RFC 3464 2.3.2, RFC 6533 3
_QUOTED_NAME = re.compile(r'\s*"(?:[^"\\]|\\.)*"\s*<(?P<address>[^<>]*)>\s*')
_COMMENTED = re.compile(r"\s*(?P<address>[^\s()]+)\s*\([^()]*\)\s*")
_QUOTED_LOCAL = re.compile(r'\s*<?"(?P<local>(?:[^"\\]|\\.){1,128})"@(?P<domain>[^\s"<>@]+)>?\s*')
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)  # of JSON
_APART = re.compile(r'[\s<>()\[\],;:"\\]+')
_DOMAIN = re.compile(r"[\w.-]+")
_PREFIX = re.compile(r"[='/]")  # may be part of an address, or stand before one
_DOT_ATOM = re.compile(r"[\w!#$%&'*+/=?^`{|}~-]+(?:\.[\w!#$%&'*+/=?^`{|}~-]+)*", re.ASCII)


def reported_key(text: str) -> str | None:
    """Give the match key of a reported address (:func:`address.match_key`), or None if it is none.

    Quotes around a local part that needs none are another spelling of it (RFC 5321 4.1.2). One that
    needs them is nobody we write to.
    """
    if len(text) > _MAX_LENGTH:
        return None
    typed = _TYPED.match(text)
    bare = text[typed.end() :] if typed else text
    wrapped = _QUOTED_NAME.fullmatch(bare) or _COMMENTED.fullmatch(bare)
    if wrapped is not None:
        bare = wrapped["address"]
    quoted = _QUOTED_LOCAL.fullmatch(bare)
    if quoted is not None:
        local = re.sub(r"\\(.)", r"\1", quoted["local"])
        if _DOT_ATOM.fullmatch(local) is None:
            return None
        bare = f"{local}@{quoted['domain']}"
    return match_key(bare)


def named_in(text: str) -> set[str]:
    """Give the match keys of the mailboxes that a text names anywhere: an event of any shape, or no JSON.

    May name one too many, where a name and what stands before it could both be meant.
    """
    plain = _ESCAPE.sub(_unescaped, text) if "\\" in text else text
    spellings: set[str] = set()
    for word in {word for word in _APART.split(plain.replace('"@', "@")) if "@" in word}:
        for local, rest in pairwise(word.split("@")):
            domain = _DOMAIN.match(rest)
            if domain is not None:
                spellings |= {f"{one}@{domain[0]}" for one in (local, _PREFIX.split(local)[-1])}
    return {key for one in spellings if (key := match_key(one)) is not None}


def _unescaped(found: re.Match[str]) -> str:
    if found[1] is not None:
        return chr(int(found[1], 16))
    return found[2] if found[2] in '"\\/' else " "
