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


def not_implemented(what: str) -> SesError:
    """The sandbox's own answer to what it does not imitate."""
    return SesError(501, "NotImplemented", f"The sandbox does not implement {what}.")
