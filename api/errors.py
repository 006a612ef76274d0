"""Every error's answer, in one table: ``application/problem+json`` (RFC 9457) and nothing else."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import falcon
import structlog
from falcon import HTTPError, Request, Response

from api.routes import PROBLEM, template
from mail_service.errors import Conflict, InvalidFields, NotFound, Unavailable

RETRY_AFTER_SECONDS = 5
MAX_NAMED = 50  # fields in one answer; a body of a mebibyte may hold very many

TITLES: Mapping[int, tuple[str, str]] = {
    400: ("malformed", "The request can't be read"),
    401: ("unauthorized", "A valid key is needed"),
    403: ("forbidden", "This is not allowed"),
    404: ("not-found", "There is no such thing"),
    405: ("method-not-allowed", "This method is not known here"),
    408: ("timeout", "The request took too long to arrive"),
    409: ("conflict", "The request does not go together with what stands"),
    413: ("too-large", "The body is too large"),
    422: ("invalid-fields", "Some fields are not usable"),
    500: ("failed", "The request failed"),
    503: ("unavailable", "Not possible at the moment; try again"),
}
"""The last part of ``type`` (an anchor of /docs) and the title, by status."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("api")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One error as it is answered."""

    status: int
    detail: str
    fields: Mapping[str, str] | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def problem_of(error: Exception) -> Problem:
    """Give what a request is told about an error. Unexpected ones give away nothing."""
    match error:
        case InvalidFields():
            named = dict(list(error.fields.items())[:MAX_NAMED])
            return Problem(status=422, detail="see errors, by field", fields=named)
        case NotFound():
            return Problem(status=404, detail=str(error))
        case Conflict():
            return Problem(status=409, detail=str(error))
        case Unavailable():
            return Problem(
                status=503,
                # A commit whose answer was lost may stand, so this promises nothing about it.
                detail="try again in a few seconds, with the same Idempotency-Key or dedup_key",
                headers={"Retry-After": str(RETRY_AFTER_SECONDS)},
            )
        case falcon.HTTPRouteNotFound():
            return Problem(status=404, detail="there is nothing at this address")
        case falcon.HTTPMethodNotAllowed():
            return Problem(status=405, detail="see the header Allow", headers=_headers(error))
        case HTTPError():
            return Problem(
                status=error.status_code,
                detail=error.description or "see /docs",
                headers=_headers(error),
            )
        case _:
            return Problem(status=500, detail="the fault is ours and was recorded")


def _headers(error: HTTPError) -> Mapping[str, str]:
    # Falcon takes pairs, too; every error that this edge raises or meets has a mapping.
    return cast("Mapping[str, str]", error.headers) if isinstance(error.headers, Mapping) else {}


def handle(req: Request, resp: Response, error: Exception, _: dict[str, Any]) -> None:
    """Answer an error; log it where it is ours."""
    problem = problem_of(error)
    if problem.status >= 500:
        record(req, error, alarm="request_failed")
    write(resp, problem)


def content(problem: Problem) -> dict[str, object]:
    """Give a problem as the JSON object of RFC 9457."""
    anchor, title = TITLES.get(
        problem.status, ("other", falcon.code_to_http_status(problem.status))
    )
    told: dict[str, object] = {
        "type": f"/docs#{anchor}",
        "title": title,
        "status": problem.status,
        "detail": problem.detail,
    }
    if problem.fields is not None:
        told["errors"] = dict(problem.fields)
    return told


def write(resp: Response, problem: Problem) -> None:
    """Put a problem into a response."""
    resp.status = problem.status
    resp.content_type = PROBLEM
    # ASCII, because a field's name is the caller's text and may hold half a surrogate pair.
    resp.data = json.dumps(content(problem)).encode("ascii")
    resp.set_headers(dict(problem.headers))


def record(req: Request, error: Exception, *, alarm: str) -> None:
    """Log a fault of ours: where it happened and of what kind it is, never its text.

    What may pass by itself is a line; everything else is an alarm.
    """
    where = {"method": req.method, "route": template(req)}
    if isinstance(error, Unavailable):
        # These texts are all ours, and hold no value.
        _log.warning("request.unavailable", **where, why=str(error))
    else:
        _log.error("alarm", alarm=alarm, **where, exc_info=error)
