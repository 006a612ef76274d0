"""``/openapi.json``, and ``/docs``: the same document as a page that needs nothing else."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from falcon import Request, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from api import openapi
from api.errors import TITLES
from api.routes import JSON, Route

PAGES = Path(__file__).parent / "pages"


class Documentation:
    """Both forms, made when first asked for."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes

    @cached_property
    def _document(self) -> openapi.Json:
        return openapi.document(self._routes)

    @cached_property
    def _page(self) -> tuple[bytes, str]:
        """Give the page, and the policy that lets it use its own style and nothing else."""
        style = (PAGES / "docs.css").read_text(encoding="utf-8")
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        policy = (
            f"default-src 'none'; style-src 'sha256-{digest}'; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        return _render(self._document, style).encode(), policy

    def on_get_json(self, req: Request, resp: Response) -> None:
        """Give the OpenAPI document."""
        resp.content_type = JSON
        resp.data = json.dumps(self._document, ensure_ascii=False).encode()

    def on_get_page(self, req: Request, resp: Response) -> None:
        """Give the page."""
        page, policy = self._page
        resp.content_type = "text/html; charset=utf-8"
        resp.set_header("Content-Security-Policy", policy)
        resp.data = page

    on_head_json = on_get_json
    on_head_page = on_get_page


def _render(document: openapi.Json, style: str) -> str:
    environment = Environment(
        loader=FileSystemLoader(PAGES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update({"kind": _kind, "marked": _marked, "name": _name})
    return environment.get_template("docs.html").render(
        document=document,
        style=Markup(style),  # noqa: S704 - a file of our own
        titles=TITLES,
    )


def _marked(text: str) -> Markup:
    """Escape a text and set what stands between backticks as code."""
    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if odd % 2 else escape(part)
        for odd, part in enumerate(parts)
    )


def _name(reference: str) -> str:
    return reference.rpartition("/")[2]


def _kind(schema: Mapping[str, Any]) -> Markup:
    """Say in a few words what a schema takes, with links to the schemas it names."""
    if "$ref" in schema:
        name = _name(schema["$ref"])
        return Markup('<a href="#schema-{0}">{0}</a>').format(name)
    for key in ("anyOf", "oneOf"):
        if key in schema:
            options = cast("list[Mapping[str, Any]]", schema[key])
            return Markup(" or ").join(_kind(option) for option in options)
    if "enum" in schema or "const" in schema:
        values = cast("list[object]", schema.get("enum") or [schema["const"]])
        return Markup(" | ").join(Markup("<code>{}</code>").format(value) for value in values)
    kind = str(schema.get("type", "anything"))
    if kind == "array":
        return Markup("list of ") + _kind(cast("Mapping[str, Any]", schema.get("items", {})))
    if "format" in schema:
        kind = {"date-time": "time"}.get(schema["format"], str(schema["format"]))
    return escape(kind)
