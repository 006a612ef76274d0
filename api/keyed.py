"""The header Idempotency-Key: read the same way, and answered the same way, by every route that takes it."""

import re
from collections.abc import Callable

from falcon import Request, Response

from api.authentication import caller_of
from api.routes import answer_text
from mail_service.errors import InvalidFields
from mail_service.workflows.idempotency import Answer, Key

_KEY = re.compile(r"[\x20-\x7e]{1,200}")

HEADERS = {
    "Idempotency-Key": "1 to 200 printable ASCII characters. The same key and body give the "
    "stored answer for 24 hours, with Idempotency-Replayed: true"
}
"""As the documentation tells it."""


def key_of(req: Request, route: str, raw: bytes) -> Key | None:
    """Give the caller's key for this body at this route, None without one. Raises InvalidFields."""
    given = req.get_header("Idempotency-Key")
    if given is None:
        return None
    if not _KEY.fullmatch(given):
        raise InvalidFields({"Idempotency-Key": "expected 1 to 200 printable ASCII characters"})
    return Key(api_key_id=caller_of(req).key_id, route=route, key=given, body=raw)


def give(resp: Response, answer: Answer, nudge: Callable[[], None]) -> None:
    """Answer, say whether it is a replay, and tell the drains where mail became due."""
    if answer.replayed:
        resp.set_header("Idempotency-Replayed", "true")
    if answer.due:
        nudge()
    answer_text(resp, answer.status, answer.text)
