"""The inbox as web pages."""

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote

import jinja2

from mail_service.sandbox.connection import Request, Response
from mail_service.sandbox.event_text import event_json
from mail_service.sandbox.events import Identity
from mail_service.sandbox.mails import Mail, Mails, Told

_PER_PAGE = 50
_REFRESH_SECONDS = 4
_HTML = "text/html; charset=utf-8"
_SAFE = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    "frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
# What a mail brings along is shown, but may run nothing and fetch nothing.
_CONFINED = _SAFE | {
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline'; "
    "img-src data:; font-src data:; frame-ancestors 'self'"
}
_TONES = {
    "delivered": "good",
    "bounced": "bad",
    "complained": "bad",
    "rejected": "bad",
    "failed": "bad",
    "delayed": "warn",
    "held": "warn",
}
_MARKS = {"delivered": "✓", "failed": "✗", "held": "held", "dropped": "dropped", "waiting": "…"}


class InboxPages:
    """Shows the accepted mails to people."""

    def __init__(self, mails: Mails, identity: Identity) -> None:
        self._mails = mails
        self._identity = identity
        self._templates = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def respond(self, request: Request) -> Response:
        """Answer a request for a page."""
        if request.method not in {"GET", "HEAD"}:
            return _text(405, "Pages can only be read.")
        path = unquote(request.path).rstrip("/")
        if path == "":
            return Response(302, headers={"Location": "/inbox"})
        if path == "/inbox":
            return self._list(dict(parse_qsl(request.query)))
        message_id, _, part = path.removeprefix("/inbox/").partition("/")
        mail = self._mails.get(message_id) if path.startswith("/inbox/") else None
        if mail is not None and not part:
            return self._mail(mail)
        if mail is not None and part == "html" and mail.draft.html is not None:
            return Response(200, mail.draft.html.encode(), _HTML, _CONFINED)
        return _text(404, "There is no such page, or the mail is no longer kept.")

    def _list(self, query: dict[str, str]) -> Response:
        words = query.get("q", "")
        page = int(query["page"]) if query.get("page", "").isdecimal() else 0
        live = query.get("live", "1") != "0" and not words and not page
        found = self._mails.find(words)
        shown = found[page * _PER_PAGE : (page + 1) * _PER_PAGE]
        return self._page(
            "list.html",
            refresh=_REFRESH_SECONDS if live else None,
            live=live,
            words=words,
            total=len(found),
            newer=page - 1 if page else None,
            older=page + 1 if len(found) > (page + 1) * _PER_PAGE else None,
            mails=[self._view(mail) for mail in shown],
        )

    def _mail(self, mail: Mail) -> Response:
        return self._page(
            "mail.html",
            refresh=None,
            mail=self._view(mail, with_texts=True),
            request=_indented(mail.request.decode("utf-8", "replace")),
        )

    def _page(self, name: str, **values: object) -> Response:
        text = self._templates.get_template(name).render(values)
        return Response(200, text.encode(), _HTML, _SAFE)

    def _view(self, mail: Mail, *, with_texts: bool = False) -> dict[str, Any]:
        summary = mail.summary()
        events = [self._event_view(mail, told, with_texts=with_texts) for told in mail.events]
        tone = _TONES.get(summary["outcome"], "")
        return summary | {"tone": tone, "ago": _ago(mail.accepted_at), "events": events}

    def _event_view(self, mail: Mail, told: Told, *, with_texts: bool) -> dict[str, Any]:
        text = event_json(told.event, mail, self._identity) if with_texts else ""
        return {
            "kind": told.event.kind,
            "recipients": told.event.recipients,
            "state": told.state,
            "status": told.status,
            "tone": _TONES.get(told.state, ""),
            "mark": _MARKS.get(told.state, ""),
            "text": _indented(text),
        }


def _ago(seconds: float) -> str:
    passed = max(time.time() - seconds, 0)
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if passed >= size:
            return f"{int(passed // size)} {unit} ago"
    return f"{int(passed)} s ago"


def _indented(text: str) -> str:
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def _text(status: int, text: str) -> Response:
    return Response(status, text.encode(), "text/plain; charset=utf-8", _SAFE)
