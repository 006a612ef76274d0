"""Suppressions as CSV: what an export writes, and what an import makes of a file from anywhere.

Spreadsheets run a cell that begins like a formula, so such a value is written with an apostrophe before
it and read without (OWASP ASVS 5.0, 1.2.10). No line of a file is lost: each is an entry, is blank, or
is told of as bad.
"""

import csv
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from mail_service.domain.address import AddressInvalid, normalise
from mail_service.domain.strict_json import read_time
from mail_service.domain.suppression import SuppressionReason
from mail_service.errors import InvalidFields

COLUMNS = ("address", "reason", "note", "created_at")

_ALSO_CALLED = {"email": "address", "emailaddress": "address", "email_address": "address"}
_LIKE_A_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_MOST_IN_A_FIELD = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line that can be taken in. ``at`` None: it says no time."""

    line: int
    address: str = field(repr=False)
    reason: SuppressionReason
    note: str | None = field(repr=False)
    at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BadLine:
    """A line, or several that belong together, of which nothing was taken in."""

    line: int
    last_line: int
    field: str
    expected: str


def written(values: Mapping[str, str]) -> list[str]:
    """Give the cells of one line of an export."""
    return [_guarded(values[column]) for column in COLUMNS]


def read(lines: Iterable[str]) -> Iterator[Entry | BadLine]:
    """Read a file with a header; the delimiter is whatever parts the header: comma, semicolon or tab.

    Needs a column ``address``; takes ``reason``, ``note`` and ``created_at``; leaves others aside. Raises
    InvalidFields where the header is not usable. Bytes that are no UTF-8 may be there as surrogates.
    """
    source = iter(lines)
    header = next(source, "").removeprefix("\ufeff")
    delimiter = max(",;\t", key=header.count)
    try:
        (named,) = csv.reader([header], delimiter=delimiter)
    except (csv.Error, ValueError):
        named = list[str]()
    names = [_name(cell) for cell in named]
    if names.count("address") != 1:
        raise InvalidFields(
            {"line 1": "expected UTF-8 text with a header that names a column address once"}
        )
    reader = csv.reader(source, delimiter=delimiter, strict=True)
    while True:
        first = reader.line_num + 2  # the header was read apart
        try:
            cells = next(reader, None)
        except csv.Error as odd:
            problem = "closing quotes, and delimiters around quoted fields"
            if "limit" in str(odd):
                problem = "shorter fields: is a closing quote missing?"
            yield BadLine(
                line=first,
                last_line=reader.line_num + 1,
                field="line",
                expected=f"expected {problem}",
            )
            continue
        if cells is None:
            return
        if not any(cell.strip() for cell in cells):
            continue
        yield _entry(names, cells, first, reader.line_num + 1)


def _entry(names: list[str], cells: list[str], line: int, last_line: int) -> Entry | BadLine:
    def bad(name: str, expected: str) -> BadLine:
        return BadLine(line=line, last_line=last_line, field=name, expected=expected)

    if len(cells) > len(names):
        return bad("line", f"expected at most {len(names)} fields, as in the header")
    given = {name: _bare(cell) for name, cell in zip(names, cells, strict=False) if cell.strip()}
    for name in COLUMNS:
        if not _is_text(given.get(name, "")):
            return bad(name, "expected UTF-8 text without control characters")
    try:
        address = normalise(given.get("address", ""), allow_reserved=True)
    except AddressInvalid as invalid:
        return bad("address", str(invalid))
    reason = given.get("reason", SuppressionReason.MANUAL).strip().lower()
    if reason not in list(SuppressionReason):
        return bad("reason", f"expected {', '.join(SuppressionReason)}, or nothing")
    note = given.get("note")
    if note is not None and len(note) > 500:
        return bad("note", "expected at most 500 characters")
    at = read_time(given["created_at"].strip()) if "created_at" in given else None
    if at is None and "created_at" in given:
        return bad("created_at", "expected a time such as 2026-07-29T12:00:00Z, or nothing")
    return Entry(line=line, address=address, reason=SuppressionReason(reason), note=note, at=at)


def _name(cell: str) -> str:
    name = cell.strip().lower()
    return _ALSO_CALLED.get(name, name)


def _guarded(text: str) -> str:
    return f"'{text}" if _LIKE_A_FORMULA.match(text) else text


def _bare(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and _LIKE_A_FORMULA.match(cell) else cell


def _is_text(value: str) -> bool:
    if len(value) > _MOST_IN_A_FIELD:
        return False
    return all(c in "\t\r\n" or (c >= " " and not "\ud800" <= c <= "\udfff") for c in value)
