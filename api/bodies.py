"""What came with a request, read once and within limits: raw bytes, strict JSON, query parameters."""

import re
from collections.abc import Iterator
from typing import TypeVar, cast

import falcon
from falcon import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mail_service.domain.strict_json import MAX_DEPTH, strict_loads
from mail_service.errors import InvalidFields

API_LIMIT = 1024 * 1024
THROWN_AWAY = 16 * API_LIMIT  # read after the limit, so that the sender hears of it
_PIECE = 64 * 1024
# PostgreSQL stores neither; JSON can spell both.
_UNFIT = re.compile("[\x00\ud800-\udfff]")

Model = TypeVar("Model", bound=BaseModel)

_TEXTS = {
    "missing": "is required",
    "extra_forbidden": "is not a known field",
    "string_type": "expected a string",
    "dict_type": "expected an object",
    "list_type": "expected a list",
    "bool_type": "expected true or false",
    "int_type": "expected a whole number",
    "uuid_parsing": "expected a UUID",
    "uuid_type": "expected a UUID",
    "enum": "expected {expected}",
    "literal_error": "expected {expected}",
    "greater_than_equal": "expected at least {ge}",
    "less_than_equal": "expected at most {le}",
    "string_too_short": "expected at least {min_length} characters",
    "string_too_long": "expected at most {max_length} characters",
    "too_long": "expected at most {max_length} items",
}
"""What is said of a field, by pydantic's name for what is wrong with it."""


def read_up_to(req: Request, limit: int) -> bytes:
    """Give the body, but of a longer one only ``limit`` + 1 bytes.

    Raises 400 where the body ends before its announced length, 408 where it stalls. A body without
    Content-Length (chunked) is read to its end only where the server marks that end.
    """
    announced = req.content_length
    if announced is None and not req.env.get("wsgi.input_terminated"):
        return b""
    wanted = limit + 1 if announced is None else min(announced, limit + 1)
    try:
        raw = b"".join(_pieces(req, wanted))
        if len(raw) > limit and (announced or 0) <= limit + THROWN_AWAY:
            # Closing a connection on somebody who still sends resets it, and the answer is lost.
            rest = THROWN_AWAY if announced is None else announced - len(raw)
            for _ in _pieces(req, rest):
                pass
    except (TimeoutError, BlockingIOError) as late:
        raise falcon.HTTPError(408, description="the body did not arrive in time") from late
    except Exception as broken:
        # Servers have errors of their own for ill-framed and broken-off bodies.
        raise falcon.HTTPBadRequest(description="the body could not be read") from broken
    if announced is not None and len(raw) < wanted:
        raise falcon.HTTPBadRequest(description="the body ended before its announced length")
    return raw


def _pieces(req: Request, left: int) -> Iterator[bytes]:
    while left > 0 and (piece := req.stream.read(min(left, _PIECE))):
        left -= len(piece)
        yield piece


def read(req: Request) -> bytes:
    """Give the body of an API request. Raises 413 over one mebibyte; of a huge one nothing is read."""
    huge = (req.content_length or 0) > API_LIMIT + THROWN_AWAY
    raw = b"" if huge else read_up_to(req, API_LIMIT)
    if huge or len(raw) > API_LIMIT:
        raise falcon.HTTPContentTooLarge(description=f"expected at most {API_LIMIT} bytes")
    return raw


def parse(model: type[Model], raw: bytes, *, unread: str | None = None) -> Model:
    """Give the body as its model. Raises 400 for what is no strict JSON, InvalidFields for the rest.

    The content of the field ``unread`` is left for :func:`check`, and what stands in its list may be as
    deep as a body of its own.
    """
    try:
        content = strict_loads(raw.decode("utf-8"), max_depth=MAX_DEPTH + (2 if unread else 0))
    except UnicodeDecodeError as odd:
        raise falcon.HTTPBadRequest(description="the body is not UTF-8") from odd
    except ValueError as odd:
        # Texts of the decoder quote nothing, but say little to who did not send a body at all.
        why = str(odd) if raw.strip() else "a JSON object is needed"
        raise falcon.HTTPBadRequest(description=f"the body is not JSON: {why}") from odd
    return check(model, content, unread=unread)


def check(model: type[Model], content: object, *, unread: str | None = None) -> Model:
    """Give what strict JSON held as its model. Raises InvalidFields."""
    if not isinstance(content, dict):
        raise InvalidFields({"body": "expected a JSON object"})
    return _validate(model, cast("dict[str, object]", content), unread)


def query(model: type[Model], req: Request) -> Model:
    """Give the query parameters as their model. Raises InvalidFields, also for unknown ones."""
    return _validate(model, dict(req.params))


def _validate(model: type[Model], content: dict[str, object], unread: str | None = None) -> Model:
    read = content if unread not in content else content | {unread: None}
    if unfit := dict(_unfit(read, ())):
        raise InvalidFields(unfit)
    try:
        return model.model_validate(content)
    except ValidationError as invalid:
        problems: dict[str, str] = {}
        for error in invalid.errors(include_url=False, include_input=False):
            problems.setdefault(".".join(str(part) for part in error["loc"]), _text(error))
        raise InvalidFields(problems) from None


def _text(error: ErrorDetails) -> str:
    known = _TEXTS.get(error["type"])
    if known is not None:
        return known.format(**error.get("ctx", {}))
    return error["msg"].removeprefix("Value error, ").replace("Input should be", "expected")


def _unfit(value: object, place: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Find the strings that can't be stored, by place. As deep as strict JSON lets a body be."""
    if isinstance(value, str):
        if _UNFIT.search(value):
            yield ".".join(place), "expected text without NUL and without lone surrogates"
    elif isinstance(value, dict):
        for name, part in cast("dict[str, object]", value).items():
            if _UNFIT.search(name):
                yield ".".join((*place, "*")), "expected names without NUL and lone surrogates"
            yield from _unfit(part, (*place, name))
    elif isinstance(value, list):
        for index, part in enumerate(cast("list[object]", value)):
            yield from _unfit(part, (*place, str(index)))
