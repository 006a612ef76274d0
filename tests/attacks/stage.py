"""The real webhook on a real database, in which there stands what an attack could change."""

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import falcon.testing
import psycopg

from api.app import create_app
from mail_service import wiring
from mail_service.domain.events import Envelope
from mail_service.ports import ReadEnvelope
from mail_service.settings import Process, Settings
from mail_service.store.pool import Database
from tests.attacks.attack import KNOWN_ID, VICTIM, VICTIMS_TAG
from tests.conftest import ENVIRONMENT
from tests.fakes import ScriptedMailer, counting_ids
from tests.signing import body_of, confirmation, make_reader, notification, sign
from tests.steps import send_all, ses_event, write_email

PATH = "/webhooks/ses/sns"
OTHER = "other@example.com"
_REJECTIONS = "webhook_rejections"
_NETWORK = {"socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"}


@dataclass(frozen=True, slots=True)
class Seen:
    """An answer, and everything that was to be seen of its request."""

    status: int
    body: bytes
    changed: frozenset[str]
    counted: Mapping[str, int]
    network: tuple[str, ...]
    """What Python asked of the network meanwhile, in any thread; libpq's connections are not its."""


class _Wiretap:
    """Sees every connection and every lookup of this process, whoever makes it."""

    def __init__(self) -> None:
        self._heard: list[str] | None = None
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._heard is not None and event in _NETWORK:
            self._heard.append(f"{event} {arguments[1:]}")

    @contextmanager
    def listening(self) -> Iterator[list[str]]:
        self._heard = heard = []
        try:
            yield heard
        finally:
            self._heard = None


_WIRETAP = _Wiretap()  # a hook can't be taken out again, so there is one


@dataclass
class Stage:
    """Posts requests and compares all tables before and after."""

    url: str
    read: ReadEnvelope = field(default_factory=make_reader)
    confirmed: list[str] = field(default_factory=list[str])

    def __post_init__(self) -> None:
        settings = Settings.from_env(ENVIRONMENT | {"DATABASE_URL": self.url}, Process.WEB)
        self.db = Database(self.url, name="stage", size=4)
        self.db.open()
        rt = wiring.runtime(settings, Process.WEB, self.db)
        mailer = ScriptedMailer()
        self.rt = replace(
            rt,
            mailer=mailer,
            read_quota=mailer.quota,
            read_envelope=self._read,
            confirm_subscription=self._confirm,
            new_id=counting_ids(),
        )
        self._client = falcon.testing.TestClient(create_app(self.rt, lambda: None))
        self._connection = psycopg.connect(self.url, autocommit=True)
        tables = self._connection.execute(
            "SELECT format('%I.%I', schemaname, tablename) FROM pg_tables"
            " WHERE schemaname IN ('mail_service', 'dramatiq') ORDER BY 1"
        ).fetchall()
        # What one request left is what the next one finds: a change in between is seen, too.
        self._before: tuple[dict[str, str], dict[str, int]] | None = None
        self.tables = [name for (name,) in tables if not name.endswith(_REJECTIONS)]

    def close(self) -> None:
        """Let go of the database."""
        self._connection.close()
        self.db.close()

    def _read(self, headers: Mapping[str, str], body: bytes) -> Envelope:
        return self.read(headers, body)

    def _confirm(self, topic_arn: str, token: str) -> str:
        self.confirmed.append(token)
        return f"{topic_arn}:subscription"

    def fill(self) -> None:
        """Write a mail to two people, and let events, a suppression and a subscription come of it."""
        write_email(self.rt, to=(VICTIM, OTHER))
        (claim,) = send_all(self.rt)
        assert str(claim.row.attempt_id) == VICTIMS_TAG, claim.row.attempt_id
        for number, event in {
            KNOWN_ID: ses_event("Delivery", tag=VICTIMS_TAG, recipients=(VICTIM,)),
            "bounced": ses_event("Bounce", tag=VICTIMS_TAG, recipients=(OTHER,)),
            "of-nobody": ses_event("Delivery", message_id="of-nobody"),
        }.items():
            assert self.tell(event, number).status == 200
        assert self.post(body_of(sign(confirmation()))).status == 200
        assert all(
            self.rows(f"SELECT count(*) FROM mail_service.{name}") != [(0,)]
            for name in ("ses_events", "suppressions", "sns_subscriptions", "email_transitions")
        )

    def tell(self, event: Mapping[str, Any] | str, number: str, **fields: str) -> Seen:
        """Post a genuine event."""
        text = event if isinstance(event, str) else json.dumps(event)
        return self.post(body_of(sign(notification(text, MessageId=number, **fields))))

    def post(self, body: bytes, headers: Mapping[str, str] | None = None) -> Seen:
        """Post this and look at everything."""
        before, counted = self._before or (self._look(), self._counted())
        with _WIRETAP.listening() as heard:
            answer = self._client.simulate_post(
                PATH,
                body=body,
                headers={"Content-Type": "text/plain; charset=UTF-8"} | dict(headers or {}),
            )
        after, now = self._before = self._look(), self._counted()
        return Seen(
            status=answer.status_code,
            body=answer.content,
            changed=frozenset(name for name in self.tables if after[name] != before[name]),
            counted={
                cause: count - counted.get(cause, 0)
                for cause, count in now.items()
                if count != counted.get(cause, 0)
            },
            network=tuple(heard),
        )

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Give what a query gives."""
        return self._connection.execute(query).fetchall()

    def _look(self) -> dict[str, str]:
        each = (
            f"SELECT '{name}', md5(coalesce(string_agg(t::text, '|' ORDER BY t::text), ''))"
            f" FROM {name} t"
            for name in self.tables
        )
        return dict(self.rows(" UNION ALL ".join(each)))

    def _counted(self) -> dict[str, int]:
        found = self.rows(
            f"SELECT cause, sum(count)::bigint FROM mail_service.{_REJECTIONS} GROUP BY cause"
        )
        return dict(found)
