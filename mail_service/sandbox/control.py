"""The sandbox's own HTTP interface under /_sandbox."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import parse_qsl

from pydantic import ValidationError

from mail_service.sandbox.connection import Request, Response
from mail_service.sandbox.simulator import BEHAVIOURS, SIMULATOR_DOMAIN

if TYPE_CHECKING:
    from mail_service.sandbox.sandbox import Sandbox

_MOST_ROWS = 10_000

Json = dict[str, Any]


class ControlError(Exception):
    """A request to the sandbox that makes no sense; the text says why."""


class Control:
    """Reads and changes a running sandbox over HTTP."""

    def __init__(self, sandbox: "Sandbox") -> None:
        self._sandbox = sandbox
        self._routes: dict[tuple[str, str], Callable[[Json], Json]] = {
            ("GET", ""): self._about,
            ("GET", "/knobs"): lambda _: sandbox.knobs(),
            ("POST", "/knobs"): lambda body: sandbox.knobs(**body),
            ("GET", "/log"): lambda query: _rows(sandbox.log, query),
            ("GET", "/deliveries"): lambda query: _rows(sandbox.deliveries, query),
            ("GET", "/inbox"): self._inbox,
            ("GET", "/subscriptions"): lambda _: {"items": sandbox.subscriptions()},
            ("POST", "/subscribe"): self._subscribe,
            ("POST", "/publish"): self._publish,
            ("POST", "/release"): lambda _: {"released": sandbox.release()},
        }

    def respond(self, request: Request) -> Response:
        """Answer a request below /_sandbox."""
        path = request.path.removeprefix("/_sandbox").rstrip("/")
        method = "GET" if request.method == "HEAD" else request.method
        route = self._routes.get((method, path))
        if route is None:
            return _json(404, {"message": f"{request.method} {request.path} does not exist."})
        try:
            return _json(200, route(_input(request)))
        except ValidationError as error:
            faults = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
            return _json(400, {"message": "; ".join(faults)})
        except (ControlError, ValueError) as error:
            return _json(400, {"message": str(error)})

    def _about(self, _: Json) -> Json:
        sandbox = self._sandbox
        return {
            "url": sandbox.url,
            "certificate_url": sandbox.certificate_url,
            "topic_arn": sandbox.topic_arn,
            "held": sandbox.held,
            "simulator": {
                f"{name}@{SIMULATOR_DOMAIN}": known.promise for name, known in BEHAVIOURS.items()
            },
        }

    def _inbox(self, query: Json) -> Json:
        limit = int(query.get("limit", 100))
        items = self._sandbox.inbox(to=query.get("to", ""), search=query.get("q", ""), limit=limit)
        return {"items": items}

    def _subscribe(self, body: Json) -> Json:
        endpoint = _text(body, "endpoint")
        arn = self._sandbox.subscribe(
            endpoint, body.get("topic_arn"), confirm=body.get("confirm", True)
        )
        return {"subscription_arn": arn}

    def _publish(self, body: Json) -> Json:
        return self._sandbox.publish(
            _text(body, "message"),
            topic_arn=body.get("topic_arn"),
            subject=body.get("subject"),
            endpoint=body.get("endpoint"),
        )


def _input(request: Request) -> Json:
    if request.method != "POST":
        return dict(parse_qsl(request.query))
    try:
        body = json.loads(request.body or b"{}")
    except ValueError:
        raise ControlError("The body must be JSON.") from None
    if not isinstance(body, dict):
        raise ControlError("The body must be a JSON object.")
    return cast(Json, body)


def _rows(read: Callable[..., list[Json]], query: Json) -> Json:
    after = int(query.get("after", 0))
    limit = min(int(query.get("limit", _MOST_ROWS)), _MOST_ROWS)
    rows = read(after=after, limit=limit)
    return {"items": rows, "last_seq": rows[-1]["seq"] if rows else after}


def _text(body: Json, name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise ControlError(f"{name} must be a string.")
    return value


def _json(status: int, document: Json) -> Response:
    return Response(status, json.dumps(document).encode())
