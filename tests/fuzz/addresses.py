"""An address that is taken is one address to everybody, and stays what it is when read again."""

from collections.abc import Callable, Iterator
from email.utils import parseaddr

from mail_service.domain import address as ours
from mail_service.domain.address import AddressInvalid
from tests.fuzz.inputs import is_utf8, text_of

KEY = b"k" * 32
TOKENS = (
    *(
        "@",
        "@example.com",
        "@xn--bcher-kva.example",
        "@bücher.example",
        ".test",
        ".invalid",
        "<",
        ">",
    ),
    *(
        "Name <",
        '"',
        "\\",
        ",",
        ";",
        "(",
        ")",
        "\r\n",
        "\t",
        "\u0130",
        "\uff20",
        "\u3002",
        "\u200d",
    ),
    *("[127.0.0.1]", "a" * 64, "ß", "\u017f", "%40", "xn--", "--", "..", "\u00ad"),
)

Normalise = Callable[..., str]


def check(data: bytes, normalise: Normalise = ours.normalise) -> None:
    """Hold the promise above against this text."""
    text = text_of(data)
    _keys_stand_still(text)
    try:
        taken = normalise(text, allow_reserved=True)
    except AddressInvalid as invalid:
        said = str(invalid).replace("ada@example.com", "").replace("the @", "")
        assert "@" not in text or text not in said, "the refusal tells the address"
        return
    _is_one_address(taken)
    assert normalise(taken, allow_reserved=True) == taken
    key = ours.match_key(taken)
    assert key is not None
    assert key == ours.match_key(taken.swapcase()) == ours.match_key(f"Name <{taken}>")
    assert ours.keyed_hash(KEY, taken) == ours.keyed_hash(KEY, taken.swapcase())
    try:
        assert normalise(text, allow_reserved=False) == taken
    except AddressInvalid:
        assert taken.endswith(tuple(f".{name}" for name in ours.RESERVED_DOMAINS))


def _is_one_address(taken: str) -> None:
    """ASCII without anything that separates, quotes or comments; another parser sees it whole."""
    assert taken.isascii()
    assert taken.isprintable()
    assert not set(taken) & set(' <>",;:()[]\\')
    assert len(taken) <= 254
    local, at, domain = taken.rpartition("@")
    assert local
    assert at
    assert "." in domain
    assert domain == domain.lower()
    assert "@" not in local
    assert parseaddr(taken) == ("", taken)


def _keys_stand_still(text: str) -> None:
    """The key of whatever a mail server reports is a key: of itself, and of its mailbox."""
    key = ours.match_key(text)
    if key is None:
        return
    assert is_utf8(key)
    assert key.isprintable()
    assert ours.match_key(key) == key
    assert ours.keyed_hash(KEY, key) == ours.keyed_hash(KEY, text)


def seeds() -> Iterator[bytes]:
    """Give addresses as callers and mail servers write them."""
    for text in (
        *(
            "ada@example.com",
            " Ada.B+tag@EXAMPLE.com ",
            "a@bücher.example",
            "a@xn--bcher-kva.example",
        ),
        *("Ada <ada@example.com>", '"Ada, B" <ada@example.com>', "<ada@example.com>", "a@b.test"),
        *("a@localhost", "a@[127.0.0.1]", '"a b"@example.com', "ü@example.com", "a@b@example.com"),
        *("a@example.com\r\nBcc: b@example.com", "a@example.com, b@example.com", "a@example.com."),
        *("\u0130@example.com", "a@e\uff58ample.com", "a@example\u3002com", "a@b.local"),
    ):
        yield text.encode()
