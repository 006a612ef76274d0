"""CSV of suppressions: what is written, and that no line of a file is lost in reading."""

import csv
import io
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mail_service.domain.suppression import SuppressionReason
from mail_service.domain.suppression_csv import COLUMNS, BadLine, Entry, read, written
from mail_service.errors import InvalidFields


def lines(text: str) -> list[str]:
    return list(io.StringIO(text, newline=""))


def entries(text: str) -> list[Entry]:
    found = list(read(lines(text)))
    assert [one for one in found if isinstance(one, BadLine)] == []
    return [one for one in found if isinstance(one, Entry)]


def test_a_file_with_every_column_is_read() -> None:
    (entry,) = entries(
        'address,reason,note,created_at\nAda@Example.com,complaint,"said, ""no""",2026-01-02T03:04:05Z\n'
    )
    assert entry == Entry(
        line=2,
        address="Ada@example.com",
        reason=SuppressionReason.COMPLAINT,
        note='said, "no"',
        at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
    )


@pytest.mark.parametrize(
    "text",
    [
        "address\nada@example.com\n",
        "address\r\nada@example.com\r\n",
        "address\rada@example.com\r",
        "address\nada@example.com",
        "\ufeffaddress\nada@example.com\n",
        '"address"\n"ada@example.com"\n',
        "Address , other\n ada@example.com , x\n",
        "email\nada@example.com\n",
        "EmailAddress,Reason\nada@example.com,MANUAL\n",
        "reason;address\n;ada@example.com\n",
        "address\treason\nada@example.com\t\n",
        "address,reason,note\nada@example.com\n",
        "address\n\n  \nada@example.com\n\n",
    ],
)
def test_files_as_people_have_them_are_read(text: str) -> None:
    (entry,) = entries(text)
    assert (entry.address, entry.reason) == ("ada@example.com", SuppressionReason.MANUAL)
    assert (entry.note, entry.at) == (None, None)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n",
        "ada@example.com\n",
        "name,reason\nada@example.com,bounce\n",
        "address,email\na@example.com,b@example.com\n",
        "\udcff\udcfea\x00d\x00d\x00r\x00e\x00s\x00s\x00\n",
        "x" * 200_000,
    ],
)
def test_a_file_without_a_usable_header_says_what_is_expected(text: str) -> None:
    with pytest.raises(InvalidFields, match="a header that names a column address once"):
        list(read(lines(text)))


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("nobody,,,", "address"),
        (",bounce,,", "address"),
        ("ada@example.com,spam,,", "reason"),
        ("ada@example.com,,,yesterday", "created_at"),
        ("ada@example.com,,,2026-13-01T00:00:00Z", "created_at"),
        (f"ada@example.com,,{'x' * 501},", "note"),
        ("ada@example.com,,a\x00b,", "note"),
        ("ada@example.com,,a\udcffb,", "note"),
        ("\udcffada@example.com,,,", "address"),
        ("ada@example.com,,,,extra", "line"),
        ('ada@example.com,"a" b,,', "line"),
    ],
)
def test_a_bad_line_is_told_by_number_and_field_and_the_others_are_read(
    line: str, field: str
) -> None:
    text = f"address,reason,note,created_at\na@example.com,,,\n{line}\nb@example.com,,,\n"
    first, bad, last = read(lines(text))
    assert isinstance(first, Entry)
    assert isinstance(last, Entry)
    assert isinstance(bad, BadLine)
    assert (first.line, bad.line, bad.last_line, last.line) == (2, 3, 3, 4)
    assert bad.field == field
    assert "nobody" not in bad.expected


def test_lines_that_a_missing_quote_swallows_are_told_of() -> None:
    text = 'address,note\n"a@example.com,x\nb@example.com,y\nc@example.com,"z"\nd@example.com,\n'
    bad, last = read(lines(text))
    assert isinstance(bad, BadLine)
    assert (bad.line, bad.last_line) == (2, 4)
    assert isinstance(last, Entry)
    assert (last.line, last.address) == (5, "d@example.com")
    (bad,) = read(lines('address,note\n"a@example.com,x\nb@example.com,y\n'))
    assert isinstance(bad, BadLine)
    assert (bad.line, bad.last_line) == (2, 3)


def test_a_swallowed_file_is_told_of_piece_by_piece() -> None:
    text = 'address,note\n"a@example.com,x\n' + "b@example.com,y\n" * 30_000
    told: set[int] = set()
    for one in read(lines(text)):
        last = one.last_line if isinstance(one, BadLine) else one.line
        told |= set(range(one.line, last + 1))
    assert told == set(range(2, 30_003))


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12), max_size=6
    )
)
def test_every_line_is_an_entry_is_blank_or_is_told_of(rest: list[str]) -> None:
    text = "address,reason,note,created_at\n" + "".join(f"{one}\n" for one in rest)
    source = lines(text)
    told: set[int] = set()
    for one in read(source):
        last = one.last_line if isinstance(one, BadLine) else one.line
        told |= set(range(one.line, last + 1))
    parts = [n for n, line in enumerate(source, 1) if n > 1 and line.strip(' \t\r\n,"')]
    blank = {n for n in parts if not "".join(next(csv.reader([source[n - 1]]), [])).strip()}
    assert set(parts) - told - blank == set()


@given(
    local=st.from_regex(r"[a-z+'=-]{1,8}", fullmatch=True).filter(lambda t: t != "''"),
    note=st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=40),
)
def test_what_is_written_is_read_back_and_no_cell_is_a_formula(local: str, note: str) -> None:
    address = f"{local}@example.com"
    values = {
        "address": address,
        "reason": "bounce",
        "note": note,
        "created_at": "2026-01-02T03:04:05Z",
    }
    out = io.StringIO()
    sheet = csv.writer(out)
    sheet.writerow(COLUMNS)
    cells = written(values)
    sheet.writerow(cells)
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    (entry,) = entries(out.getvalue())
    assert entry.address == address
    assert entry.note == (note if note.strip() else None)
