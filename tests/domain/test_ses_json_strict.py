"""Strict JSON and times from strangers."""

import json
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mail_service.domain.strict_json import read_time, strict_loads


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1}',
        '{"a":1,"\\u0061":2}',
        '[{"b":{"a":1,"a":1}}]',
        "NaN",
        "[Infinity]",
        "[-Infinity]",
        "1e999",
        "-1e999",
        "1" * 65,
        "0." + "1" * 65,
        "[" * 33 + "]" * 33,
        '{"a":' * 33 + "1" + "}" * 33,
        "",
        "{",
        '{"a":1,}',
        "01",
        "[1] 2",
        '"raw\nnewline"',
        '"half',
        '"half\\',
        "'a'",
        "\ufeff{}",
    ],
)
def test_what_strict_json_forbids_is_a_value_error(text):
    with pytest.raises(ValueError, match=r".+"):
        strict_loads(text)


def test_the_depth_may_be_thirty_two_and_brackets_inside_strings_do_not_count():
    deepest = "[" * 32 + "]" * 32
    assert strict_loads(deepest) == json.loads(deepest)
    for text in ('"' + "[" * 100 + '"', '{"a\\"[":"' + "{[" * 100 + '\\\\"}'):
        assert strict_loads(text) == json.loads(text)
    assert strict_loads("[" + "[]," * 100 + "[]]") == [[]] * 101
    with pytest.raises(ValueError, match="deeper than 1"):
        strict_loads("[[]]", max_depth=1)


@pytest.mark.parametrize(
    "text",
    ['"' * 500_001, '\\"' * 500_000, '"' + '\\"' * 500_000, '"\\' * 500_000, "[]" * 500_000],
    ids=range(5),
)
def test_a_megabyte_of_quotes_costs_one_pass(text):
    started = time.monotonic()
    with pytest.raises(ValueError, match=r".+"):
        strict_loads(text)
    assert time.monotonic() - started < 2


NAIVE_TIMES = st.datetimes(
    min_value=datetime.fromisoformat("1970-01-02"), max_value=datetime.fromisoformat("9999-12-30")
)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(min_value=-(10**60), max_value=10**60)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(values)
def test_every_other_json_text_is_read_as_the_standard_library_reads_it(value):
    assert strict_loads(json.dumps(value)) == value
    assert strict_loads(json.dumps(value, ensure_ascii=False, indent=1)) == value


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-07-29T12:00:00Z", datetime(2026, 7, 29, 12, tzinfo=UTC)),
        ("2026-07-29T12:00:00.5Z", datetime(2026, 7, 29, 12, 0, 0, 500_000, tzinfo=UTC)),
        ("2026-07-29T12:00:00.123456789Z", datetime(2026, 7, 29, 12, 0, 0, 123_456, tzinfo=UTC)),
        ("2026-07-29t12:00:00z", datetime(2026, 7, 29, 12, tzinfo=UTC)),
        ("2026-07-29T14:00:00+02:00", datetime(2026, 7, 29, 12, tzinfo=UTC)),
        ("2026-07-29T09:30:00-0230", datetime(2026, 7, 29, 12, tzinfo=UTC)),
        ("2018-10-08T14:05:45 +0000", datetime(2018, 10, 8, 14, 5, 45, tzinfo=UTC)),
        ("2026-07-29T12:00:00", datetime(2026, 7, 29, 12, tzinfo=UTC)),
        ("2016-12-31T23:59:60Z", datetime(2017, 1, 1, tzinfo=UTC)),
        ("1970-01-01T00:00:00Z", datetime(1970, 1, 1, tzinfo=UTC)),
        ("9999-12-31T23:59:59Z", datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ("1969-12-31T23:59:59Z", None),
        ("1970-01-01T00:00:00+00:01", None),
        ("9999-12-31T23:59:59-00:01", None),
        ("9999-12-31T23:59:60Z", None),
        ("0000-01-01T00:00:00Z", None),
        ("0001-01-01T00:00:00+23:59", None),
        ("2026-02-29T00:00:00Z", None),
        ("2026-07-29T24:00:00Z", None),
        ("2026-07-29T12:00:61Z", None),
        ("2026-07-29T12:00:00+24:00", None),
        ("2026-07-29T12:00:00+99:99", None),
        ("2026-07-29T12:00:00Z\n", None),
        (" 2026-07-29T12:00:00Z", None),
        ("\u0662\u0660\u0662\u0666-07-29T12:00:00Z", None),
        ("2026-07-29", None),
        ("20260729T120000Z", None),
        ("2026-W31-3T12:00:00Z", None),
        ("1785326400", None),
        ("", None),
        ("9" * 100_000, None),
        (1785326400, None),
        (None, None),
        (["2026-07-29T12:00:00Z"], None),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_a_time_is_utc_between_1970_and_9999_or_none(text, expected):
    assert read_time(text) == expected


@given(
    NAIVE_TIMES,
    st.integers(-1439, 1439),
)
def test_every_rfc_3339_time_is_read_exactly(naive, minutes):
    at = naive.replace(tzinfo=UTC)
    sign = "-" if minutes < 0 else "+"
    offset = f"{sign}{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    local = (naive + timedelta(minutes=minutes)).isoformat()
    assert read_time(local + offset) == at
    assert read_time(naive.isoformat()) == at


@given(st.text(alphabet="0123456789-:TZ+. ", max_size=40) | st.text())
def test_any_text_is_a_time_or_none(text):
    at = read_time(text)
    assert at is None or at.tzinfo is UTC
