"""The address of SES, read once for all calls: where to connect, and how that is written and signed."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import SplitResult, quote, urlsplit

from botocore.utils import normalize_url_path

ADDRESS: Final = re.compile(
    r"https?://[^/?#\s]+(/([\w.~!$&'()*+,;=:@/-]|%[0-9a-f]{2})*)?", re.ASCII | re.IGNORECASE
)
"""No query, and a path that needs no encoding, so that everybody signs and sends the same."""
PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """``host`` is the header's value, ``path`` the request's target, ``signed_path`` its encoded form."""

    secure: bool
    hostname: str
    port: int
    host: str
    path: str
    signed_path: str


def is_usable(url: str) -> bool:
    """Whether calls can go to this address."""
    try:
        to = urlsplit(url)
        return bool(to.hostname) and _port(to) > 0 and bool(ADDRESS.fullmatch(url))
    except (KeyError, ValueError):
        return False


@lru_cache(maxsize=8)
def read(url: str) -> Endpoint:
    """Read an address that is usable."""
    to = urlsplit(url)
    host = to.hostname or ""
    named = f"[{host}]" if ":" in host else host
    port = _port(to)
    path = to.path or "/"
    return Endpoint(
        secure=to.scheme == "https",
        hostname=host,
        port=port,
        host=named if port == PORTS[to.scheme] else f"{named}:{port}",
        path=path,
        signed_path=quote(normalize_url_path(path), safe="/~"),
    )


def _port(to: SplitResult) -> int:
    return PORTS[to.scheme] if to.port is None else to.port
