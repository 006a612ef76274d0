"""Headers of a caller's own, such as List-Unsubscribe: which may be set, and how they must look.

What SES takes is narrow (API reference, MessageHeader): printable ASCII, a name of 126 characters, a
value of 995, 996 together, 15 in a mail. What is left out here is what the mail's own fields, SES or
mail software on the way say.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

MAX_HEADERS: Final = 14  # the fifteenth is the tag of the call
_MAX_NAME, _MAX_BOTH = 126, 996
_NAME = re.compile(r"[!-9;-~]+")
_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")
_ENCODED_WORD = re.compile(r"=\?[^\s?]+\?[bq]\?", re.IGNORECASE)

_NOT_TO_BE_SET: Final = frozenset(
    {"authentication-results", "bcc", "cc", "date", "dkim-signature", "from", "message-id"}
    | {"mime-version", "received", "reply-to", "return-path", "sender", "subject", "to"}
)
_NOT_TO_BEGIN_WITH: Final = ("arc-", "content-", "resent-", "x-mail-service-", "x-ses-")


def problems(headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Give the name and what was expected for each header that can't be set; name "" is about all."""
    if len(headers) > MAX_HEADERS:
        yield "", f"expected at most {MAX_HEADERS} headers"
    seen: set[str] = set()
    for name, value in headers.items():
        known = name.lower()
        if not _NAME.fullmatch(name) or len(name) > _MAX_NAME:
            yield name, f"expected a name of 1 to {_MAX_NAME} printable ASCII characters, no colon"
        elif known in _NOT_TO_BE_SET or known.startswith(_NOT_TO_BEGIN_WITH):
            yield name, "expected a header that neither another field nor SES sets"
        elif known in seen:
            yield name, "expected each header once, in whatever letters"
        elif not _VALUE.fullmatch(value) or len(name) + len(value) > _MAX_BOTH:
            yield (
                name,
                (
                    f"expected printable ASCII in one line, {_MAX_BOTH} characters with the name, no space "
                    "at either end"
                ),
            )
        elif _ENCODED_WORD.search(value):
            # What it decodes to, to whoever decodes it, was not looked at.
            yield name, "expected text that is no encoded word (=?...?=)"
        seen.add(known)
