"""What every intake shares: a checked request waiting for its transaction, and emails' rows."""

import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from mail_service.domain.states import EmailState
from mail_service.errors import Conflict, Impossible
from mail_service.runtime import Runtime
from mail_service.store import intake, views
from mail_service.store.database import Tx
from mail_service.store.intake import Kind, NewEmail, NewRecipient, Standing
from mail_service.store.views import EmailView
from mail_service.workflows import journal

Effect = TypeVar("Effect")

DEFAULT_PRIORITY = 5


@dataclass(frozen=True, slots=True)
class Write(Generic[Effect]):
    """A checked request: what writes it, and what finds it where the commit's answer was lost."""

    work: Callable[[Tx], Effect]
    found: Callable[[Tx], Effect | None]

    def __call__(self, tx: Tx) -> Effect:
        """Write it."""
        return self.work(tx)


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The email under a key, and whether this request wrote it."""

    email: EmailView
    created: bool


def submit(tx: Tx, emails: Sequence[NewEmail], actor: str) -> list[Submitted | Conflict]:
    """Write emails, or give those that stand under their keys; as if they came one after the other.

    However many there are: one statement writes, and where keys were taken a few more look.
    """
    if not emails:
        return []
    first: dict[str, NewEmail] = {}
    for email in emails:
        first.setdefault(email.dedup_key, email)
    written = {one.id: one.created_at for one in intake.add(tx, list(first.values()), actor)}
    shown = {
        email.id: written_view(tx, email, written[email.id])
        for email in first.values()
        if email.id in written
    }
    stands: dict[str, NewEmail | Standing] = {
        key: email for key, email in first.items() if email.id in written
    }
    if taken := [key for key in first if key not in stands]:
        stands |= {one.dedup_key: one for one in intake.standing(tx, taken)}
        wanted = {
            one.id
            for email in emails
            if (one := _under(stands, email)).id not in shown and _same(one, email)
        }
        if wanted:
            shown |= {view.email.id: view for view in views.by_ids(tx, list(wanted))}
    given: list[Submitted | Conflict] = []
    for email in emails:
        standing = _under(stands, email)
        if not _same(standing, email):
            given.append(
                Conflict("dedup_key stands for an email with another content or recipient")
            )
        elif standing.id not in shown:
            raise Impossible("an email is gone whose key is there")
        else:
            given.append(Submitted(email=shown[standing.id], created=standing is email))
    return given


def _under(stands: dict[str, NewEmail | Standing], email: NewEmail) -> NewEmail | Standing:
    standing = stands.get(email.dedup_key)
    if standing is None:
        raise Impossible("a dedup key was taken and is not there")
    return standing


def _same(standing: NewEmail | Standing, email: NewEmail) -> bool:
    return hmac.compare_digest(standing.intent_hash, email.intent_hash)


def written_view(tx: Tx, email: NewEmail, created_at: datetime) -> EmailView:
    """Give a new email as it stands now, without reading it back; tells of it once it is committed."""
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


def recipient(rt: Runtime, kind: Kind, address: str, hashed: bytes) -> NewRecipient:
    """Give the row of somebody an email goes to; ``hashed`` is the keyed hash of the address."""
    return NewRecipient(
        id=rt.new_id(),
        kind=kind,
        address=address,
        address_hash=hashed,
    )


def intent(rt: Runtime, asked: dict[str, Any]) -> bytes:
    """Give the keyed hash by which a repeated request is known, also after its content is gone."""
    canonical = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hmac.digest(rt.address_key, canonical.encode(), hashlib.sha256)
