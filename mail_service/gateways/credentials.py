"""The credentials of a call, fetched before it: a fault on the way to them says nothing of the mail."""

import time
from typing import TYPE_CHECKING

from botocore.exceptions import NoCredentialsError

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials
    from botocore.signers import RequestSigner


class CredentialsNotFetched(Exception):
    """The cause is what boto3 raised: of STS, of a program, of a file, of the machine's metadata."""


def credentials_of(signer: "RequestSigner", *, until: float) -> "ReadOnlyCredentials":
    """Give the client's credentials, fetched anew where they are about to expire.

    ``until`` is monotonic: boto3 gives STS a minute, and credentials that come after the lease of the mail
    would send it when it may be another's. They are there for the next mail.

    Raises NoCredentialsError, and CredentialsNotFetched for whatever goes wrong: a profile with a
    mistyped role is a ParamValidationError, a time-out of STS a ReadTimeoutError, a missing file an OSError.
    Each of them would mean something else if it were of the call.
    """
    try:
        found: ReadOnlyCredentials | None = signer.get_auth_instance(
            signer.signing_name, signer.region_name
        ).credentials
    except Exception as fault:
        raise CredentialsNotFetched from fault
    if time.monotonic() >= until:
        raise CredentialsNotFetched from TimeoutError("the credentials came too late")
    if found is None:
        raise NoCredentialsError
    return found
