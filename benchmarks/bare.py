"""The least that could serve a sign-up and an event: the product's SQL, one commit, nothing else.

Served by gunicorn with as many processes, threads and pooled connections as the product's web process.
No keys, no checks, no signatures, no limits, no log, no nudge, no second look at a connection.
"""

import hashlib
import json
import os
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import falcon
from psycopg_pool import ConnectionPool

from mail_service import wiring
from mail_service.domain.address import keyed_hash
from mail_service.domain.events import EventKind, EventStatus, FactKind
from mail_service.domain.facts import KnownFact
from mail_service.domain.states import OnAmbiguous
from mail_service.ports import TAG_NAME
from mail_service.settings import Process
from mail_service.store import events, intake
from mail_service.store.database import Tx
from mail_service.store.events import NewEvent
from mail_service.store.intake import NewAccount, NewEmail, NewRecipient
from mail_service.store.session import Session
from mail_service.workflows.match import call_of, have_effect, stands

# gunicorn's own settings; this file is its configuration as well.
workers = int(os.environ.get("WEB_CONCURRENCY", "2"))
worker_class = "gthread"
threads = 64
keepalive = 95
loglevel = "warning"
control_socket_disable = True

_settings = wiring.settings_for(os.environ, Process.WEB)
_db = wiring.database(_settings, Process.WEB)
_rt = wiring.runtime(_settings, Process.WEB, _db)
_template = _rt.templates.get(_settings.account_template)
_sender = _settings.default_sender
_pool: ConnectionPool[Session] | None = None


def _connections() -> ConnectionPool[Session]:
    global _pool
    if _pool is None:  # after the fork
        _pool = ConnectionPool(
            _settings.database_url.get_secret_value(),
            connection_class=Session,
            configure=_learn,
            min_size=2,
            max_size=2,
            open=True,
        )
    return _pool


def _learn(connection: Session) -> None:
    connection.learn_enums()
    connection.commit()


class Accounts:
    """A sign-up: account, outbox row, content, recipient."""

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        body = json.loads(req.bounded_stream.read())
        address: str = body["email"]
        hashed = hashlib.sha256(address.encode()).digest()
        account_id, email_id = uuid.uuid4(), uuid.uuid4()
        recipient = NewRecipient(
            id=uuid.uuid4(), kind="to", address=address, address_hash=hashed
        )  # fmt: skip
        email = NewEmail(
            id=email_id,
            account_id=account_id,
            dedup_key=f"welcome:{account_id}:v1",
            intent_hash=hashed,
            template=_settings.account_template,
            template_checksum=_template.checksum if _template else "",
            sender=_sender,
            on_ambiguous=OnAmbiguous.HOLD,
            priority=5,
            send_at=None,
            not_after=None,
            data={"name": body["name"]},
            reply_to=(),
            headers=(),
            recipients=(recipient,),
        )
        account = NewAccount(id=account_id, email=address, address_hash=hashed, name=body["name"])
        with _connections().connection() as connection:
            intake.open_account(Tx(connection), account, email, "bare")
        resp.status = falcon.HTTP_201
        resp.text = json.dumps({"account": str(account_id), "email": str(email_id)})


class Events:
    """An event: stored, matched, its fact merged."""

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        envelope: dict[str, str] = json.loads(req.bounded_stream.read())
        said: dict[str, Any] = json.loads(envelope["Message"])
        at = datetime.now(UTC)
        (recipient,) = said["delivery"]["recipients"]
        fact = KnownFact(
            kind=FactKind.DELIVERED,
            address_hash=keyed_hash(_rt.address_key, recipient),
            at=at,
        )
        event = NewEvent(
            id=uuid.uuid4(),
            topic_arn=envelope["TopicArn"],
            sns_message_id=envelope["MessageId"],
            kind=EventKind.DELIVERY,
            status=EventStatus.UNMATCHED,
            provider_message_id=said["mail"]["messageId"],
            request_tag=said["mail"]["tags"][TAG_NAME][0],
            occurred_at=at,
            facts=(fact,),
            payload=envelope["Message"],
            named=[keyed_hash(_rt.address_key, recipient)],
        )
        with _connections().connection() as connection:
            tx = Tx(connection)
            known = call_of(tx, event)
            if known is None or not stands(event, known):
                raise falcon.HTTPServiceUnavailable(description="not a call that was accepted")
            event = replace(event, status=EventStatus.MATCHED, attempt_id=known.id)
            if (received_at := events.add(tx, event)) is not None:
                have_effect(_rt, tx, event.stored(received_at), known.id)
        resp.text = '{"status": "ok"}'


class Ready:
    """Answers."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        with _connections().connection() as connection:
            connection.execute("SELECT")


application = falcon.App()
application.add_route("/accounts", Accounts())
application.add_route("/events", Events())
application.add_route("/ready", Ready())
