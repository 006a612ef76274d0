"""AWS Signature Version 4 for the one request we make: a POST of bytes, without a query.

botocore's signer serves every service and costs a quarter of a call: it prepares the request twice
and copies its headers into mail headers three times. tests/gateways/test_signature.py holds this one
to the same signature.
"""

import hmac
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials

ALGORITHM: Final = "AWS4-HMAC-SHA256"
TIME_FORMAT: Final = "%Y%m%dT%H%M%SZ"
UNSIGNED: Final = "user-agent"
"""Proxies change it, so AWS's own libraries do not sign it."""


def signed(
    headers: Mapping[str, str],
    *,
    host: str,
    path: str,
    body: bytes,
    at: str,
    credentials: "ReadOnlyCredentials",
    region: str,
    service: str,
) -> dict[str, str]:
    """Give the headers with those that sign the request: Host, X-Amz-Date, perhaps a token, Authorization.

    ``at`` is UTC in TIME_FORMAT, ``path`` is percent-encoded twice where the target is once.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
    """
    sent = {**headers, "Host": host, "X-Amz-Date": at}
    if credentials.token:
        sent["X-Amz-Security-Token"] = credentials.token
    covered = {name.lower(): " ".join(value.split()) for name, value in sent.items()}
    covered.pop(UNSIGNED, None)
    names = sorted(covered)
    listed = ";".join(names)
    lines = [f"{name}:{covered[name]}" for name in names]
    request = "\n".join(["POST", path, "", *lines, "", listed, sha256(body).hexdigest()])
    scope = f"{at[:8]}/{region}/{service}/aws4_request"
    text = "\n".join([ALGORITHM, at, scope, sha256(request.encode()).hexdigest()])
    key = _key(credentials.secret_key, at[:8], region, service)
    sent["Authorization"] = (
        f"{ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={listed}, "
        f"Signature={_mac(key, text).hex()}"
    )
    return sent


@lru_cache(maxsize=4)
def _key(secret: str, day: str, region: str, service: str) -> bytes:
    key = _mac(f"AWS4{secret}".encode(), day)
    for part in (region, service, "aws4_request"):
        key = _mac(key, part)
    return key


def _mac(key: bytes, text: str) -> bytes:
    return hmac.digest(key, text.encode(), "sha256")
