"""One SendEmail call on the wire: how it is answered or left hanging, and its rows in the log."""

import json
from typing import Any, cast

from mail_service.sandbox.connection import Connection, Response
from mail_service.sandbox.ledger import Ledger
from mail_service.sandbox.ses_errors import SesError

_FOR_EVER = float("inf")


class Call:
    """Whatever is done with the connection of a call is logged as it is done.

    `tags`, `recipients`, `message_id` and `behaviour` are filled in as they become known.
    """

    def __init__(self, request_id: str, connection: Connection, log: Ledger) -> None:
        self.request_id = request_id
        self.tags: dict[str, str] = {}
        self.recipients: list[str] = []
        self.message_id: str | None = None
        self.behaviour: str | None = None
        self._connection = connection
        self._log = log

    def note(self, event: str, status: int | None = None, code: str | None = None) -> None:
        """Write a row to the provider log."""
        self._log.append(
            {
                "event": event,
                "request_id": self.request_id,
                "tags": self.tags,
                "message_id": self.message_id,
                "recipients": self.recipients,
                "status": status,
                "code": code,
                "behaviour": self.behaviour,
            }
        )

    def refuse(self, error: SesError, after_seconds: float) -> None:
        """Log the refusal, then answer it after a delay."""
        self.note("refused", error.status, error.code)
        self.answer_error(error, after_seconds)

    def answer_error(self, error: SesError, after_seconds: float = 0) -> None:
        """Answer with an error, whether or not the mail was accepted."""
        headers = {"x-amzn-RequestId": self.request_id, "x-amzn-ErrorType": error.code}
        response = Response(error.status, error.body(), headers=headers)
        self._answer(response, after_seconds, error.code)

    def answer(self, body: dict[str, Any], after_seconds: float = 0) -> None:
        """Answer with 200 and a JSON body after a delay."""
        headers = {"x-amzn-RequestId": self.request_id}
        self._answer(Response(200, json.dumps(body).encode(), headers=headers), after_seconds)

    def _answer(self, response: Response, after_seconds: float, code: str | None = None) -> None:
        if after_seconds and not self._connection.wait(after_seconds):
            self._client_gone()
        elif self._connection.write(response):
            self.note("answered", response.status, code)
        else:
            self._client_gone()

    def hang(self) -> None:
        """Never answer; return when the client has given up."""
        self.note("hung")
        self._connection.wait(_FOR_EVER)
        self._client_gone()

    def reset(self) -> None:
        """Cut the connection instead of answering."""
        self._connection.reset()
        self.note("reset")

    def _client_gone(self) -> None:
        # A connection that the sandbox itself interrupts while stopping says nothing of clients.
        if not self._connection.interrupted:
            self.note("client_gone")
        self._connection.open = False


def glimpse(payload: dict[str, Any]) -> tuple[dict[str, str], list[str]]:
    """Tags and recipients of a request that nobody has checked yet."""
    pairs = [_fields(tag) for tag in _items(payload.get("EmailTags"))]
    tags = {str(tag["Name"]): str(tag.get("Value")) for tag in pairs if "Name" in tag}
    lists = _fields(payload.get("Destination")).values()
    return tags, [str(address) for some in lists for address in _items(some)]


def _fields(value: object) -> dict[str, object]:
    return cast(dict[str, object], value) if isinstance(value, dict) else {}


def _items(value: object) -> list[object]:
    return cast(list[object], value) if isinstance(value, list) else []
