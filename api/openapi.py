"""The OpenAPI 3.1 document, built from the table of routes and their models.

Built here rather than by spectree: that reads an application's private router, validates a second
time unless each route opts out, and knows neither problem+json nor scopes per route. pydantic gives
the schemas, and what is left is this file.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, TypeAdapter

from api import presenting
from api.routes import JSON, PROBLEM, Route, Said

Json = dict[str, Any]
Mode = Literal["validation", "serialization"]
Content = type[BaseModel] | TypeAdapter[Any]

_PARAMETER = re.compile(r"\{(\w+)\}")
_REF = "#/components/schemas/"

ABOUT = """\
Transactional email through Amazon SES that knows, per recipient, what became of each mail.

Send `Authorization: Bearer <key>`; each route names the scope that its key needs. Times are RFC 3339
in UTC, ids are UUIDs. Lists give `next`: ask again with `after` set to it. Unknown fields and
unknown query parameters are refused by name, never ignored."""


def document(routes: Sequence[Route]) -> Json:
    """Give the whole document."""
    schemas = _Schemas(routes)
    paths: dict[str, Json] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "mail-service", "version": "1", "description": ABOUT},
        "servers": [{"url": "/"}],
        "tags": [{"name": name} for name in dict.fromkeys(r.operation.group for r in routes)],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "An API key. Scopes: send, read, operate",
                }
            },
        },
    }


class _Schemas:
    """Every schema once, and where to find the one of a body, a query or an answer."""

    def __init__(self, routes: Sequence[Route]) -> None:
        wanted: dict[tuple[Content, Mode], TypeAdapter[Any]] = {}

        def want(content: Content | None, mode: Mode) -> None:
            if content is not None:
                adapter = content if isinstance(content, TypeAdapter) else TypeAdapter(content)
                wanted[content, mode] = adapter

        for route in routes:
            want(route.operation.body, "validation")
            want(route.operation.query, "validation")
            for said in route.operation.answers.values():
                want(said.content, "serialization")
        want(presenting.Problem, "serialization")
        want(presenting.InvalidFieldsProblem, "serialization")
        self._found, shared = TypeAdapter.json_schemas(
            [((content, mode), mode, adapter) for (content, mode), adapter in wanted.items()],
            ref_template=_REF + "{model}",
        )
        self.components: Json = dict(sorted(shared.get("$defs", {}).items()))

    def of(self, content: Content, mode: Mode) -> Json:
        """Give the schema, mostly a reference."""
        return dict(self._found[(content, mode), mode])

    def properties(self, model: type[BaseModel]) -> Mapping[str, Json]:
        """Give the schema of each field."""
        schema = self.of(model, "validation")
        if "$ref" in schema:
            # Query models are told as parameters, so they need not stand among the schemas.
            schema = self.components[str(schema["$ref"]).removeprefix(_REF)]
        return schema["properties"]


def _operation(route: Route, schemas: _Schemas) -> Json:
    operation = route.operation
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", "format": "uuid"},
        }
        for name in _PARAMETER.findall(route.path)
    ]
    if operation.query is not None:
        parameters += [
            _parameter("query", name, schema)
            for name, schema in schemas.properties(operation.query).items()
        ]
    parameters += [
        _parameter("header", name, {"type": "string", "description": what})
        for name, what in operation.headers.items()
    ]
    told: Json = {
        "operationId": _operation_id(route),
        "summary": operation.summary,
        "tags": [operation.group],
        "responses": _responses(route, schemas),
        # The names of scopes are allowed beside a bearer scheme since OpenAPI 3.1.
        "security": [{"key": [route.scope]}] if route.scope is not None else [],
    }
    if operation.about:
        told["description"] = operation.about
    if parameters:
        told["parameters"] = parameters
    if operation.body is not None:
        content = {JSON: {"schema": schemas.of(operation.body, "validation")}}
        told["requestBody"] = {"required": True, "content": content}
    return told


def _operation_id(route: Route) -> str:
    words = [word.strip("{}") for word in route.path.split("/") if word]
    return "_".join([route.method.lower(), *words]).replace(".", "_")


def _parameter(place: str, name: str, schema: Json) -> Json:
    told = {key: value for key, value in schema.items() if key != "description"}
    parameter: Json = {"name": name, "in": place, "required": False, "schema": told}
    if "description" in schema:
        parameter["description"] = schema["description"]
    return parameter


def _responses(route: Route, schemas: _Schemas) -> Json:
    responses = {str(s): _said(said, schemas) for s, said in route.operation.answers.items()}
    problem = schemas.of(presenting.Problem, "serialization")
    fields = schemas.of(presenting.InvalidFieldsProblem, "serialization")
    for status, meaning in sorted({**implied(route), **route.operation.errors}.items()):
        content = {PROBLEM: {"schema": fields if status == 422 else problem}}
        responses[str(status)] = {"description": meaning, "content": content}
        if status == 503:
            responses["503"]["headers"] = {"Retry-After": {"schema": {"type": "integer"}}}
    responses = dict(sorted(responses.items()))
    responses["default"] = {
        "description": "Any other error",
        "content": {PROBLEM: {"schema": problem}},
    }
    return responses


def implied(route: Route) -> dict[int, str]:
    """Give the errors that follow from a route's form."""
    found: dict[int, str] = {503: "Not possible at the moment; try again after Retry-After"}
    if route.scope is not None:
        found[401] = "No valid key"
        found[403] = f"The key lacks the scope {route.scope}"
    if "{" in route.path:
        found[404] = "There is no such thing"
    if route.operation.body is not None:
        found[400] = "The body is not strict JSON in UTF-8"
        found[413] = "The body is over one mebibyte"
    if route.operation.body is not None or route.operation.query is not None:
        found[422] = "Some fields are not usable; `errors` names each"
    return found


def _said(said: Said, schemas: _Schemas) -> Json:
    told: Json = {"description": said.meaning}
    if said.content is not None:
        told["content"] = {said.media_type: {"schema": schemas.of(said.content, "serialization")}}
    else:
        told["content"] = {said.media_type: {"schema": {"type": "string"}}}
    return told
