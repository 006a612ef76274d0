"""Inputs as texts."""

from pathlib import Path

EVENTS = Path(__file__).parents[1] / "cases" / "events"
BETWEEN = "\x1f"
"""Separates the texts of an input that is several."""


def text_of(data: bytes) -> str:
    """Give every text there is, those with half characters among them."""
    return data.decode("utf-8", "surrogateescape")


def texts_of(data: bytes, least: int) -> list[str]:
    """Give the texts that an input is made of, blank ones where it has fewer than ``least``."""
    texts = text_of(data).split(BETWEEN)
    return texts + [""] * (least - len(texts))


def input_of(*texts: str) -> bytes:
    """Give the input that is these texts."""
    return BETWEEN.join(texts).encode("utf-8", "surrogateescape")


def is_utf8(text: str) -> bool:
    """Whether this text can be written down: it has no half characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
