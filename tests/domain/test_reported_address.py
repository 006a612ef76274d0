"""What mail servers report is known as the mailbox we wrote to, or as nobody."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mail_service.domain.address import match_key
from mail_service.domain.reported_address import named_in, reported_key


@pytest.mark.parametrize(
    "reported",
    [
        "ada.b@example.com",
        "Ada.B@Example.COM",
        " ada.b@example.com\r\n",
        "ada.b@example.com.",
        "<ada.b@example.com>",
        "Ada <ada.b@example.com>",
        '"Ada" <ada.b@example.com>',
        '"Lovelace, Ada (Countess)" <ada.b@example.com>',
        '"Ada <at home>" <ada.b@example.com>',
        '"a quote \\" in it" <ada.b@example.com>',
        '"<eve@example.com>" <ada.b@example.com>',
        "=?utf-8?q?Ada_L=C3=B6velace?= <ada.b@example.com>",
        "=?utf-8?b?QWRhIDxldmVAZXhhbXBsZS5jb20+?= <ada.b@example.com>",
        "ada.b@example.com (Ada Lovelace)",
        "rfc822;ada.b@example.com",
        "RFC822; Ada.B@example.com",
        "utf-8; ada.b@example.com",
        'rfc822; "Ada" <ada.b@example.com>',
        '"ada.b"@example.com',
        '"ada\\.b"@example.com',
        '<"Ada.B"@example.com>',
        '"Ada" <"ada.b"@example.com>',
    ],
)
def test_every_spelling_of_one_mailbox_has_its_key(reported: str) -> None:
    assert reported_key(reported) == "ada.b@example.com"


def test_a_domain_is_known_in_unicode_and_in_punycode() -> None:
    for domain in (
        "bücher.example",
        "BÜCHER.example",
        "xn--bcher-kva.example",
        "XN--BCHER-KVA.Example",
    ):
        assert reported_key(f'"Ada" <ada@{domain}>') == "ada@xn--bcher-kva.example"


@pytest.mark.parametrize(
    "reported",
    [
        "",
        "undisclosed-recipients:;",
        "MAILER-DAEMON",
        "rfc822;",
        "x400; /S=ada/",
        '"john doe"@example.com',
        '"ada@evil.example"@example.com',
        '"ada..b"@example.com',
        '""@example.com',
        "ada@example.com, eve@example.com",
        "<ada@example.com> <eve@example.com>",
        "ada@example.com (a (nested) comment)",
        "=?utf-8?q?ada=40example=2Ecom?=",
        "ada@[127.0.0.1]",
        '"' * 900,
        "(" * 1000,
        "ada@example.com" + " " * 2000,
    ],
)
def test_what_names_no_mailbox_of_ours_or_several_names_nobody(reported: str) -> None:
    assert reported_key(reported) is None


@given(st.text())
def test_any_text_has_a_key_that_is_its_own_or_none(text: str) -> None:
    key = reported_key(text)
    assert key is None or key == match_key(key)


@given(st.text())
def test_what_is_a_mailbox_by_itself_is_the_same_one_when_reported(text: str) -> None:
    assert match_key(text) in {None, reported_key(text)}


@pytest.mark.parametrize(
    "text",
    [
        "ada.b@example.com",
        "to Ada.B@Example.COM.",
        "smtp; 550 5.1.1 <ada.b@example.com>: user unknown",
        "'ada.b@example.com' is full",
        '"ada.b"@example.com',
        "mailto:ada.b@example.com,eve@example.com",
        "rfc822;ada.b@example.com",
        "arn:aws:ses:eu-west-1:123456789012:identity/ada.b@example.com",
        "x-originator=ada.b@example.com",
        '{"to": ["\\u0022Ada\\u0022 \\u003cada.b\\u0040example.com\\u003e"]}',
        '{"to": "Eve\\n\\tada.b@example.com\\r"}',
        '{"to": "\\"Ada \\\\ B\\" <\\"ada.b\\"@example.com>"}',
        '{"not": "closed ada.b@example.com',
    ],
)
def test_a_mailbox_is_found_wherever_a_text_names_it(text: str) -> None:
    assert "ada.b@example.com" in named_in(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", "@", "ada.b@", "@example.com", "ada.b example.com", "ada.b@@example.com"),
        *(
            "x.ada.b@example.com",
            "ada.b@example.com.au",
            "ada-b@example.com",
            "ada.b@x-example.com",
        ),
    ],
)
def test_another_mailbox_or_none_is_not_taken_for_it(text: str) -> None:
    assert "ada.b@example.com" not in named_in(text)


LOCAL = st.from_regex(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}", fullmatch=True)


@given(before=st.text(), local=LOCAL, escaped=st.booleans(), after=st.text())
def test_every_address_that_we_write_to_is_found_in_the_json_that_names_it(
    before: str, local: str, escaped: bool, after: str
) -> None:
    address = f"{local}@xn--bcher-kva.example"
    text = json.dumps([before, f"{after}<{address}>"], ensure_ascii=escaped)
    assert match_key(address) in named_in(text)


@given(st.text())
def test_no_text_is_too_strange_to_be_searched(text: str) -> None:
    assert all(match_key(key) == key for key in named_in(text))
    named_in(f"a@{text}")
