"""Headers of a caller's own: what may be set goes on the wire as it is, everything else is named."""

import re
from email.message import EmailMessage

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mail_service.domain.headers import MAX_HEADERS, problems

VALUES = st.one_of(
    st.text(max_size=1000),
    st.from_regex(r"=\?[a-z8 -]{0,8}\?[bqBQ]\?[ -~]{0,40}\?=", fullmatch=True),
)
ANYTHING = st.dictionaries(st.text(max_size=140), VALUES, max_size=20)
NAMED = st.dictionaries(st.from_regex(r"X-[a-z]{1,8}", fullmatch=True), VALUES, max_size=5)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"List-Unsubscribe": "<https://example.com/u/1>, <mailto:u@example.com>"},
        {"X-Link": "<https://example.com/?a=?b>"},
        {"List-Unsubscribe-Post": "List-Unsubscribe=One-Click"},
        {"X-Entity-Ref-ID": "1", "References": "<a@example.com>", "Auto-Submitted": "auto-replied"},
        {"X" * 126: "v" * 870},
        {f"X-{n}": "v" for n in range(MAX_HEADERS)},
    ],
)
def test_what_a_caller_may_set_is_taken(headers: dict[str, str]) -> None:
    assert not dict(problems(headers))


@pytest.mark.parametrize(
    ("headers", "named"),
    [
        ({"": "v"}, ""),
        ({"X A": "v"}, ""),
        ({"X:A": "v"}, ""),
        ({"X-Ä": "v"}, ""),
        ({"X" * 127: "v"}, ""),
        ({"X-A\r\nBcc": "v"}, ""),
        ({"ada@example.com": "v"}, ""),
        ({"X-A": "v\r\nBcc: eve@example.com"}, "X-A"),
        ({"X-A": "v\n w"}, "X-A"),
        ({"X-A": "v\N{NEXT LINE}w"}, "X-A"),
        ({"X-A": "v\N{LINE SEPARATOR}w"}, "X-A"),
        ({"X-A": "v\x00"}, "X-A"),
        ({"X-A": "ü"}, "X-A"),
        ({"X-A": ""}, "X-A"),
        ({"X-A": " v"}, "X-A"),
        ({"X-A": "v "}, "X-A"),
        ({"X-A": "v" * 994}, "X-A"),
        ({"X-A": "=?utf-8?q?=0D=0ABcc:_eve@example.com?="}, "X-A"),
        ({"X-A": "=??q?=0D=0ABcc:_eve@example.com?="}, "X-A"),
        ({"X-A": "=?utf 8?Q?=0D=0ABcc:_eve@example.com?="}, "X-A"),
        ({"X-A": "=? ?b?DQpCY2M6IGV2ZUBleGFtcGxlLmNvbQ==?="}, "X-A"),
        ({"X-A": "text =??B?DQpCY2M6IGV2ZUBleGFtcGxlLmNvbQ==?="}, "X-A"),
        ({"X-A": "1", "x-a": "2"}, "x-a"),
        ({f"X-{n}": "v" for n in range(MAX_HEADERS + 1)}, ""),
    ],
)
def test_a_header_that_can_t_be_set_is_named(headers: dict[str, str], named: str) -> None:
    assert set(dict(problems(headers))) == {named}


@pytest.mark.parametrize(
    "name",
    [
        *("From", "SENDER", "reply-to", "To", "Cc", "Bcc", "Subject", "Date", "Message-ID"),
        *("MIME-Version", "Content-Type", "Content-Transfer-Encoding", "Return-Path", "Received"),
        *("DKIM-Signature", "ARC-Seal", "Authentication-Results", "Resent-To"),
        *("X-SES-CONFIGURATION-SET", "X-SES-MESSAGE-TAGS", "X-Mail-Service-Attempt"),
    ],
)
def test_what_the_mail_or_ses_says_can_t_be_said_by_a_header(name: str) -> None:
    assert set(dict(problems({name: "v"}))) == {name}


@given(ANYTHING | NAMED)
@example({"X-A": "=?a?B?a?="})
def test_whatever_is_taken_is_one_line_each_and_read_back_the_same(headers: dict[str, str]) -> None:
    refused = dict(problems(headers))
    if "" in refused:
        return
    taken = {name: value for name, value in headers.items() if name not in refused}
    message = EmailMessage()
    for name, value in taken.items():
        line = f"{name}: {value}"
        assert re.fullmatch(r"[!-9;-?A-~]+: [ -~]+", line)
        assert len(name) + len(value) <= 996
        message[name] = value
    assert {name: message[name] for name in taken} == taken


@given(ANYTHING)
def test_what_is_said_of_a_header_quotes_none_of_its_value(headers: dict[str, str]) -> None:
    for name, value in headers.items():
        for other, said in problems({name: value}):
            assert other in (name, "")
            assert len(value) < 20 or value not in said
