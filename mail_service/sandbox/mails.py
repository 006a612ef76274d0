"""The mails that were accepted, kept for looking at."""

import re
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any

from mail_service.sandbox.events import Event
from mail_service.sandbox.ledger import rfc3339
from mail_service.sandbox.publications import Publication

_LINK = re.compile(r"https?://[^\s\"'<>]+")
_HREF = re.compile(r"""href\s*=\s*["'](https?://[^"']+)["']""", re.IGNORECASE)
_KEPT_BYTES = 128 * 1024 * 1024


@dataclass(slots=True)
class Draft:
    """What a SendEmail request asks for, checked and read."""

    source: str
    source_address: str
    to: list[str]
    cc: list[str]
    bcc: list[str]
    recipients: list[str]
    reply_to: list[str]
    subject: str
    text: str | None
    html: str | None
    headers: list[tuple[str, str]]
    attachments: list[dict[str, Any]]
    tags: dict[str, str]
    configuration_set: str | None


@dataclass(slots=True)
class Told:
    """An event of a mail and how far the sandbox got with telling it."""

    event: Event
    state: str = "waiting"
    status: int | None = None
    publication: Publication | None = None


@dataclass(slots=True)
class Mail:
    """A draft that was accepted, with its events."""

    message_id: str
    request_id: str
    accepted_at: float
    behaviour: str
    caller: str
    source_ip: str
    draft: Draft
    request: bytes
    events: list[Told] = field(default_factory=list[Told])

    def outcome(self) -> str:
        """One word for what became of the mail, the worst of its recipients first."""
        kinds = {told.event.outcome for told in self.events}
        for outcome in ("complained", "bounced", "rejected", "delivered", "delayed"):
            if outcome in kinds:
                return outcome
        return "accepted"

    def links(self) -> list[str]:
        """The web addresses found in the HTML and the text, each once, in order."""
        found = _HREF.findall(self.draft.html or "") + _LINK.findall(self.draft.text or "")
        return list(dict.fromkeys(link.replace("&amp;", "&") for link in found))

    def summary(self) -> dict[str, Any]:
        """The mail as JSON for tests and scripts."""
        draft = self.draft
        return {
            "id": self.message_id,
            "request_id": self.request_id,
            "at": self.accepted_at,
            "time": rfc3339(self.accepted_at),
            "from": draft.source,
            "to": draft.to,
            "cc": draft.cc,
            "bcc": draft.bcc,
            "recipients": draft.recipients,
            "subject": draft.subject,
            "text": draft.text,
            "html": draft.html,
            "links": self.links(),
            "headers": [{"name": name, "value": value} for name, value in draft.headers],
            "attachments": draft.attachments,
            "tags": draft.tags,
            "configuration_set": draft.configuration_set,
            "behaviour": self.behaviour,
            "outcome": self.outcome(),
            "events": [
                {
                    "kind": told.event.kind,
                    "recipients": told.event.recipients,
                    "state": told.state,
                    "status": told.status,
                    "sns_message_id": told.publication.message_id if told.publication else None,
                }
                for told in list(self.events)
            ],
        }


class Mails:
    """The newest mails, bounded in number and in bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._bytes = 0
        self._lock = threading.Lock()
        self._mails: OrderedDict[str, Mail] = OrderedDict()

    def add(self, mail: Mail) -> None:
        """Keep a mail and let go of the oldest ones beyond the bounds."""
        with self._lock:
            self._mails[mail.message_id] = mail
            self._bytes += _weight(mail)
            while len(self._mails) > 1 and (
                len(self._mails) > self._most or self._bytes > _KEPT_BYTES
            ):
                self._bytes -= _weight(self._mails.popitem(last=False)[1])

    def get(self, message_id: str) -> Mail | None:
        """The mail with this id, unless it was let go."""
        with self._lock:
            return self._mails.get(message_id)

    def newest(self) -> list[Mail]:
        """All mails kept, newest first."""
        with self._lock:
            return list(reversed(self._mails.values()))

    def find(self, words: str = "", recipient: str = "") -> list[Mail]:
        """The mails to `recipient` whose subject or addresses contain `words`, newest first."""
        needle, address = words.lower(), recipient.lower()
        return [
            mail
            for mail in self.newest()
            if (not address or address in (known.lower() for known in mail.draft.recipients))
            and (
                not needle
                or needle in mail.draft.subject.lower()
                or any(needle in known.lower() for known in mail.draft.recipients)
            )
        ]


def _weight(mail: Mail) -> int:
    return len(mail.request) * 2 + 2_000
