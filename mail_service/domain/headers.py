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
_NAME = re.compile(
    rf"[!-9;-?A-~]{{1,{_MAX_NAME}}}"
)  # without @: a name stays in what is said of it
_VALUE = re.compile(r"[!-~](?:[ -~]*[!-~])?")

ENCODED_WORD: Final = re.compile(r"=\?[^?]*\?[bq]\?", re.IGNORECASE)
"""What readers of mail decode (RFC 2047) and may take for lines of their own. As generous as they are:
Python's takes a charset of blanks, and none."""

_NOT_TO_BE_SET: Final = frozenset(
    {"authentication-results", "bcc", "cc", "date", "dkim-signature", "from", "message-id"}
    | {"mime-version", "received", "reply-to", "return-path", "sender", "subject", "to"}
)
_NOT_TO_BEGIN_WITH: Final = ("arc-", "content-", "resent-", "x-mail-service-", "x-ses-")

_NAMES: Final = f"expected names of 1 to {_MAX_NAME} printable ASCII characters, no colon, no @"
_ONE_LINE: Final = (
    f"expected printable ASCII in one line, at most {_MAX_BOTH} characters with the name, "
    "no space at either end"
)


def problems(headers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Give the name and what was expected for each header that can't be set.

    The name is "" where something is wrong with all of them, or where it is none that can be told.
    """
    if len(headers) > MAX_HEADERS:
        yield "", f"expected at most {MAX_HEADERS} headers"
    seen: set[str] = set()
    for name, value in headers.items():
        known = name.lower()
        if not _NAME.fullmatch(name):
            yield "", _NAMES
        elif known in _NOT_TO_BE_SET or known.startswith(_NOT_TO_BEGIN_WITH):
            yield name, "expected a header that no other field, SES or mail software sets"
        elif known in seen:
            yield name, "expected each header once, in whatever letters"
        elif not _VALUE.fullmatch(value) or len(name) + len(value) > _MAX_BOTH:
            yield name, _ONE_LINE
        elif ENCODED_WORD.search(value):
            # What it decodes to, to whoever decodes it, was not looked at.
            yield name, "expected text that is no encoded word (=?...?=)"
        seen.add(known)
