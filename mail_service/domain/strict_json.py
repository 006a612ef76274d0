"""JSON and times as strangers write them, read without giving them room for surprises."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import NoReturn, cast

MAX_DEPTH = 32
_MAX_DIGITS = 64  # no id, time or count of AWS comes near it

# Strings are stepped over whole. The closing quote is optional and the quantifiers are possessive:
# an unfinished string then costs one pass, not one pass per quote in it.
_STRING_OR_BRACKET = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?|[\[\]{}]', re.DOTALL)

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,12}))?"
    r" ?(?:([Zz])|([+-])(\d\d):?(\d\d))?",
    re.ASCII,
)


def strict_loads(text: str, *, max_depth: int = MAX_DEPTH) -> object:
    """Give what the JSON text says, or raise ValueError; never any other exception.

    Stricter than RFC 8259 where readers differ: no name twice in one object, no NaN or Infinity
    (nor by overflow), no number over 64 characters, nothing nested deeper than ``max_depth``. Depth
    is checked before the decoder, which recurses, sees the text. NUL and lone surrogates written
    as escapes do come through: whoever stores a string checks it.
    """
    _check_depth(text, max_depth)
    return cast(
        object,
        json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        ),
    )


def read_time(text: object) -> datetime | None:
    """Give the time in UTC, or None for whatever is no time between 1970 and 9999.

    Takes RFC 3339 and the one other form in AWS's documents, ``2018-10-08T14:05:45 +0000``. A time
    without an offset is UTC; a leap second is the next second; digits below microseconds are cut.
    """
    if not isinstance(text, str) or len(text) > _MAX_DIGITS:
        return None
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    fraction, _, sign, offset_hours, offset_minutes = found.groups()[6:]
    leap = second == 60
    try:
        offset = timedelta(hours=int(offset_hours or 0), minutes=int(offset_minutes or 0))
        at = datetime(
            year,
            month,
            day,
            hour,
            minute,
            59 if leap else second,
            int((fraction or "0").ljust(6, "0")[:6]),
            tzinfo=timezone(-offset if sign == "-" else offset),
        ).astimezone(UTC) + timedelta(seconds=leap)
    except (ValueError, OverflowError):
        return None
    return at if at.year >= 1970 else None


def _check_depth(text: str, limit: int) -> None:
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text):
        first = token[0][0]
        if first in "[{":
            depth += 1
            if depth > limit:
                raise ValueError(f"nested deeper than {limit}")
        elif first in "]}":
            depth -= 1


def _object(pairs: list[tuple[str, object]]) -> Mapping[str, object]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return members


def _integer(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError("a number is too long")
    return int(digits)


def _float(digits: str) -> float:
    if len(digits) > _MAX_DIGITS:
        raise ValueError("a number is too long")
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    return number


def _constant(_: str) -> NoReturn:
    raise ValueError("NaN and Infinity are not JSON")
