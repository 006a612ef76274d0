"""Addresses: what we write to, and which spellings are one mailbox."""

from base64 import b64encode
from collections.abc import Callable
from email.header import decode_header, make_header
from email.utils import formataddr, parseaddr

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mail_service.domain.address import (
    AddressInvalid,
    checked,
    format_sender,
    is_everyday,
    keyed_hash,
    match_key,
    normalise,
    split_sender,
)

EVERYDAY = st.from_regex(
    r"[a-z0-9]{1,9}([._+-]{1,2}[a-z0-9]{1,9}){0,2}@([a-z0-9]{1,9}-{0,2}[a-z0-9]{0,9}\.){1,3}[a-z]{1,6}",
    fullmatch=True,
)
"""Everyday addresses, and such as come near them."""


@pytest.mark.parametrize(
    ("given_text", "wire"),
    [
        ("ada@example.com", "ada@example.com"),
        ("  Ada.B@EXAMPLE.Com ", "Ada.B@example.com"),
        ("kunde@bücher.example", "kunde@xn--bcher-kva.example"),
        ("a+tag@sub.example.com", "a+tag@sub.example.com"),
        ("o'neil@example.com", "o'neil@example.com"),
        ("bounce+1@simulator.amazonses.com", "bounce+1@simulator.amazonses.com"),
    ],
)
def test_an_address_is_stored_as_it_goes_on_the_wire(given_text: str, wire: str) -> None:
    assert normalise(given_text, allow_reserved=False) == wire


@given(EVERYDAY)
@example("a@b.co")
@example("postmaster@example.com")
@example("a@xn--bcher-kva.example")
@example("a@1.2.com")
@example("a@example.localhost")
@example("a@" + "b" * 58 + ".com")
@example("a" * 59 + "@b.co")
def test_an_everyday_address_is_what_it_would_be_to_the_library(text: str) -> None:
    def outcome(normalising: Callable[..., str]) -> str | None:
        try:
            return normalising(text, allow_reserved=False)
        except AddressInvalid:
            return None

    assert outcome(normalise) == outcome(checked)


def test_most_addresses_are_everyday_ones() -> None:
    assert is_everyday("ada.lovelace+shop@mail.example.com")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "ada",
        "ada@",
        "@example.com",
        "ada@example",
        "ada@@example.com",
        "ada@exa mple.com",
        "a da@example.com",
        "ada@example.com\n",
        "ada@example.com\r\nBcc: eve@example.com",
        "ada\0@example.com",
        "<a@evil.com>b@ok.com",
        "Ada <ada@example.com>",
        "ada@example.com,eve@example.com",
        '"john doe"@example.com',
        "jö@example.com",
        "ada@[127.0.0.1]",
        "ada@localhost",
        "ada@example.com.",
        "ada@-example.com",
        "ada@exam_ple.com",
        "a@" + "b" * 300 + ".com",
        "x" * 65 + "@example.com",
        "ada@example.com\u200b",
        "ada@\u2028example.com",
        "a" * 100_000,
        ".ada@example.com",
        "ada..b@example.com",
        "=?utf-8?b?DQo=?=ada@example.com",
        "=?utf-8?q?ada?=@example.com",
    ],
)
def test_what_is_no_address_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(AddressInvalid) as refused:
        normalise(text, allow_reserved=True)
    assert str(refused.value).startswith("expected ")
    assert len(text) < 20 or text not in str(refused.value)


@pytest.mark.parametrize("domain", ["shop.test", "shop.invalid", "shop.LOCAL"])
def test_reserved_domains_are_taken_only_where_allowed(domain: str) -> None:
    assert normalise(f"ada@{domain}", allow_reserved=True) == f"ada@{domain.lower()}"
    with pytest.raises(AddressInvalid):
        normalise(f"ada@{domain}", allow_reserved=False)


@pytest.mark.parametrize(
    "spelling",
    [
        "ada@xn--bcher-kva.example",
        "ADA@BÜCHER.example",
        "Ada L <ada@bücher.example>",
        "<ada@xn--bcher-kva.EXAMPLE>",
        " ada@bücher.example ",
    ],
)
def test_spellings_of_one_mailbox_have_one_key(spelling: str) -> None:
    assert match_key(spelling) == "ada@xn--bcher-kva.example"


@pytest.mark.parametrize(
    "text",
    [
        "undisclosed-recipients:;",
        "",
        "@",
        "a b@example.com",
        "x" * 5000,
        "a@b@c d",
        '"john doe"@example.com',
    ],
)
def test_what_is_no_mailbox_has_no_key(text: str) -> None:
    assert match_key(text) is None


@given(st.text())
def test_any_text_from_outside_has_a_key_or_none(text: str) -> None:
    key = match_key(text)
    assert key is None or key == key.lower() == match_key(key)


@given(st.emails())
def test_what_is_stored_is_known_again(text: str) -> None:
    try:
        wire = normalise(text, allow_reserved=True)
    except AddressInvalid:
        return
    assert normalise(wire, allow_reserved=True) == wire
    assert match_key(wire) == match_key(wire.upper())


def test_the_hash_is_keyed_and_the_same_for_every_spelling() -> None:
    one = keyed_hash(b"k" * 32, "ada@example.com")
    assert one == keyed_hash(b"k" * 32, "ADA@EXAMPLE.COM")
    assert one != keyed_hash(b"j" * 32, "ada@example.com")


def test_a_senders_name_survives_in_an_encoded_word() -> None:
    assert split_sender("Bücher Shop <shop@example.com>") == ("Bücher Shop", "shop@example.com")
    assert format_sender("Bücher", "shop@example.com").isascii()
    assert format_sender("Shop, Inc.", "shop@example.com") == '"Shop, Inc." <shop@example.com>'
    assert format_sender("", "shop@example.com") == "shop@example.com"


@pytest.mark.parametrize(
    "control", ["\r\n", "\n", "\r", "\0", "\t", "\x0b", "\x1c", "\x7f", "\x85", "\u2028", "\ud800"]
)
def test_no_name_brings_a_line_or_a_control_into_a_sender(control: str) -> None:
    for name in (f"Shop{control}Bcc: eve@example.com", f"Grüße{control}", f"{control}Shop"):
        with pytest.raises(AddressInvalid, match="control"):
            format_sender(name, "shop@example.com")


@pytest.mark.parametrize(
    "text",
    [
        "\u0130" * 130 + "@example.com",  # two characters each in lower case
        "a" * 120 + "@" + ".".join(["ü" * 20] * 6) + ".example",  # longer in punycode
        "Name <" + "\u0130" * 130 + "@example.com>",
    ],
)
def test_a_mailbox_that_grows_beyond_an_address_when_its_key_is_made_has_none(text: str) -> None:
    assert match_key(text) is None


@given(
    st.text(), st.sampled_from(["\u0130", "ß", "\u03a3", "\u017f", "ü", "A"]), st.integers(0, 250)
)
def test_a_key_is_its_own_key(text: str, letter: str, times: int) -> None:
    for spelling in (
        text,
        f"{letter * times}@example.com",
        f"a@{letter * times}.example",
        f"{text}@b.de",
    ):
        key = match_key(spelling)
        assert key is None or match_key(key) == key


@pytest.mark.parametrize("controls", ["\r\n", "\n", "\0", "\x0b", "\u2028"])
@pytest.mark.parametrize("charset", ["utf-8", "utf-16", "iso-2022-jp"])
def test_no_encoded_word_brings_a_line_or_a_control_into_a_sender(
    controls: str, charset: str
) -> None:
    for method, encode in (("b", b64encode), ("q", _quoted)):
        data = encode(f"Shop{controls}Bcc: eve@example.com".encode(charset, "replace")).decode()
        word = f"=?{charset}?{method}?{data}?="
        again = formataddr((word, "a@example.com"), charset="utf-8").removesuffix(
            " <a@example.com>"
        )
        for name in (word, f"The {word} Shop", f"{word} {word}", again):
            try:
                made = format_sender(name, "shop@example.com")
            except AddressInvalid:
                continue
            shown = str(make_header(decode_header(made)))
            assert not set(shown) & set("\r\n\0\x0b\u2028")


def _quoted(data: bytes) -> bytes:
    return "".join(f"={byte:02X}" for byte in data).encode()


def test_a_name_that_is_encoded_already_stays_the_name_it_encodes() -> None:
    encoded = "=?utf-8?q?B=C3=BCcher?="
    assert format_sender(encoded, "a@example.com") == format_sender("Bücher", "a@example.com")
    for charset in ("x-unknown", "zip", "rot13", "undefined", "ü", "idna"):
        with pytest.raises(AddressInvalid, match="display name"):
            format_sender(f"=?{charset}?q?=FF?=", "a@example.com")
    for name in ("=?x-unknown?q?a?=", "=?utf-8?b?a?=", "=?utf-8?q?=FF?="):
        with pytest.raises(AddressInvalid, match="display name"):
            format_sender(name, "a@example.com")


@pytest.mark.parametrize("name", ["=?", "a =? b", "?=", "=?utf-8?q?=3D=3Futf-8=3Fq=3Fa=3F=3D?="])
def test_a_name_that_only_looks_encoded_is_shown_as_it_is(name: str) -> None:
    once = str(make_header(decode_header(name)))
    made = format_sender(name, "a@example.com")
    shown, address = parseaddr(str(make_header(decode_header(made))))
    assert (shown, address) == (once, "a@example.com")
