"""What a route is: where it is, who may use it, who answers, and what the documentation says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

from falcon import Request, Response
from pydantic import BaseModel, TypeAdapter

Scope = Literal["send", "read", "operate"]
Method = Literal["GET", "POST", "DELETE"]
Responder = Callable[..., None]
"""Takes a request, a response and the path's parameters as text."""

JSON = "application/json"
PROBLEM = "application/problem+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One answer as the documentation tells it: what it means, and its content."""

    meaning: str
    content: type[BaseModel] | TypeAdapter[Any] | None = None
    media_type: str = JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What the documentation says of a route. ``errors`` adds to those that its form implies."""

    summary: str
    about: str = ""
    group: str
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    answers: Mapping[int, Said]
    errors: Mapping[int, str] = field(default_factory=dict[int, str])


@dataclass(frozen=True, slots=True)
class Route:
    """One method at one path. ``scope`` None: open, or guarded by the responder itself."""

    method: Method
    path: str
    scope: Scope | None
    respond: Responder
    operation: Operation


Scopes = Mapping[tuple[str, str], Scope | None]


def scopes(routes: Sequence[Route]) -> Scopes:
    """Give the scope by method and path; HEAD needs what GET needs."""
    table: dict[tuple[str, str], Scope | None] = {}
    for route in routes:
        table[route.method, route.path] = route.scope
        if route.method == "GET":
            table["HEAD", route.path] = route.scope
    return table


def resources(routes: Sequence[Route]) -> Mapping[str, object]:
    """Give one Falcon resource for each path, with the path's methods (and HEAD beside GET)."""
    found: dict[str, SimpleNamespace] = {}
    for route in routes:
        resource = found.setdefault(route.path, SimpleNamespace())
        setattr(resource, f"on_{route.method.lower()}", route.respond)
        if route.method == "GET":
            resource.on_head = route.respond
    return found


def answer(resp: Response, status: int, content: BaseModel) -> None:
    """Answer with this content as JSON."""
    answer_text(resp, status, content.model_dump_json())


def answer_text(resp: Response, status: int, text: str) -> None:
    """Answer with a JSON text as it stands."""
    resp.status = status
    resp.content_type = JSON
    resp.data = text.encode()


def template(req: Request) -> str:
    """Give the route's path with its parameters' names, which is fit for a log."""
    return req.uri_template or "none"
