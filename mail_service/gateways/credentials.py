"""The credentials of a call, fetched before it: a fault on the way to them says nothing of the mail."""

import threading
import time
from typing import TYPE_CHECKING, Final

from botocore.exceptions import NoCredentialsError

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials
    from botocore.signers import RequestSigner


SERVE_SECONDS: Final = 60.0
"""How long credentials may serve unasked. boto3 renews minutes before they expire."""


class CredentialsNotFetched(Exception):
    """The cause is what boto3 raised: of STS, of a program, of a file, of the machine's metadata."""


class Credentials:
    """A client's credentials, fetched anew where they are about to expire. Safe to share between threads.

    boto3 gives STS a minute, and a mail that waited for it could leave when its lease has run out and it
    may be another's. So that mail is not sent, and what came too late serves those after it for
    ``late_ones_serve`` seconds: else a renewal that is always slow would let none go. One thread asks
    at a time, or each would ask anew, one after the other; meanwhile what is known serves the others.
    """

    def __init__(self, *, late_ones_serve: float = SERVE_SECONDS) -> None:
        self._late_ones_serve = late_ones_serve
        self._asking = threading.Lock()
        self._known: ReadOnlyCredentials | None = None
        self._known_until = 0.0
        self._ask_again_at = 0.0

    def of(self, signer: "RequestSigner", *, until: float) -> "ReadOnlyCredentials":
        """Give them before ``until``, which is monotonic.

        Raises NoCredentialsError, and CredentialsNotFetched for whatever goes wrong: a profile with a
        mistyped role is a ParamValidationError, a time-out of STS a ReadTimeoutError, a missing file an
        OSError. Each of them would mean something else if it were of the call.
        """
        if not self._asking.acquire(blocking=False):
            now = time.monotonic()
            if self._known is not None and now < self._known_until:
                return self._known
            if not self._asking.acquire(timeout=max(0.0, until - now)):
                raise CredentialsNotFetched from TimeoutError("another thread still asks")
        try:
            if self._known is not None and time.monotonic() < self._ask_again_at:
                return self._known
            return self._ask(signer, until)
        finally:
            self._asking.release()

    def _ask(self, signer: "RequestSigner", until: float) -> "ReadOnlyCredentials":
        found = _fetched(signer)
        now = time.monotonic()
        self._known, self._known_until = found, now + SERVE_SECONDS
        if now >= until:
            self._ask_again_at = now + self._late_ones_serve
            raise CredentialsNotFetched from TimeoutError("the credentials came too late")
        return found


def _fetched(signer: "RequestSigner") -> "ReadOnlyCredentials":
    try:
        auth = signer.get_auth_instance(signer.signing_name, signer.region_name)
    except Exception as fault:
        raise CredentialsNotFetched from fault
    found: ReadOnlyCredentials | None = auth.credentials
    if found is None:
        raise NoCredentialsError
    return found
