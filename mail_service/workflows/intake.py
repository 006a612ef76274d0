"""What every intake shares: a checked request waiting for its transaction, and an email's rows."""

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mail_service.domain.states import EmailState
from mail_service.runtime import Runtime
from mail_service.store import outbox, views
from mail_service.store.database import Tx
from mail_service.store.outbox import NewEmail, NewRecipient
from mail_service.store.views import EmailView
from mail_service.workflows import journal

Effect = TypeVar("Effect")


@dataclass(frozen=True, slots=True)
class Write(Generic[Effect]):
    """A checked request: what writes it, and what finds it where the commit's answer was lost."""

    work: Callable[[Tx], Effect]
    found: Callable[[Tx], Effect | None]

    def __call__(self, tx: Tx) -> Effect:
        """Write it."""
        return self.work(tx)


def add(tx: Tx, email: NewEmail, actor: str) -> EmailView | None:
    """Write an email and give it as it stands now, without reading it back; None if its key is taken."""
    created_at = outbox.add(tx, email, actor)
    if created_at is None:
        return None
    journal.stage_once(tx, "email.written", email_id=email.id, template=email.template)
    return EmailView(
        email=views.EmailRow(
            id=email.id,
            dedup_key=email.dedup_key,
            template=email.template,
            account_id=email.account_id,
            state=EmailState.PENDING,
            reason=None,
            on_ambiguous=email.on_ambiguous,
            epoch=0,
            priority=email.priority,
            created_at=created_at,
            next_attempt_at=email.send_at or created_at,
            not_after=email.not_after,
            finished_at=None,
        ),
        recipients=[
            views.RecipientView(
                email_id=email.id,
                address=recipient.address,
                kind=recipient.kind,
                delivered_at=None,
                bounced_at=None,
                bounce_type=None,
                bounce_subtype=None,
                complained_at=None,
                complaint_type=None,
                delayed_at=None,
                rejected_at=None,
                suppressed_at=None,
                in_call=False,
                in_accepted_call=False,
            )
            for recipient in email.recipients
        ],
    )


def recipient(rt: Runtime, address: str, hashed: bytes) -> NewRecipient:
    """Give the row of somebody an email is to; ``hashed`` is the keyed hash of the address."""
    return NewRecipient(
        id=rt.new_id(),
        kind="to",
        address=address,
        address_hash=hashed,
    )


def intent(rt: Runtime, asked: dict[str, Any]) -> bytes:
    """Give the keyed hash by which a repeated request is known, also after its content is gone."""
    canonical = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hmac.digest(rt.address_key, canonical.encode(), hashlib.sha256)
