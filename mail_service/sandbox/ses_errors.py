"""Errors of SES v2 as they stand on the wire."""

import json


class SesError(Exception):
    """An error answer of SES: HTTP status, error type and text."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    def body(self) -> bytes:
        """The JSON body of the answer."""
        return json.dumps({"message": self.message}).encode()


def bad_request(message: str) -> SesError:
    """A BadRequestException, which SES answers with 400."""
    return SesError(400, "BadRequestException", message)


def not_found(message: str) -> SesError:
    """A NotFoundException, which SES answers with 404."""
    return SesError(404, "NotFoundException", message)


def trouble(kind: str, operation: str) -> SesError:
    """What SES answers to an operation that is denied, throttled or unavailable."""
    if kind == "denied":
        who = "arn:aws:iam::000000000000:user/sandbox"
        text = f"User: {who} is not authorized to perform: ses:{operation} on resource: *"
        return SesError(403, "AccessDeniedException", text)
    if kind == "throttled":
        return SesError(429, "TooManyRequestsException", "Rate exceeded")
    return SesError(503, "ServiceUnavailableException", "Service is unavailable")


def not_implemented(what: str) -> SesError:
    """The sandbox's own answer to what it does not imitate."""
    return SesError(501, "NotImplemented", f"The sandbox does not implement {what}.")
