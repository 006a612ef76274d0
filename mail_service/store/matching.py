"""Which call of ours an event is about: read in one statement, without a lock."""

from dataclasses import dataclass
from uuid import UUID

from mail_service.domain.states import Attempt, AttemptState, EmailState
from mail_service.store.database import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A call of ours as it stood when an event looked for it.

    ``holder_id`` is the attempt under which the event's MessageId is saved, whoever's that is.
    """

    id: UUID
    email_id: UUID
    number: int
    epoch: int
    state: AttemptState
    provider_message_id: str | None
    email_state: EmailState
    holder_id: UUID | None

    @property
    def attempt(self) -> Attempt:
        """The attempt, as decisions about it need it."""
        return Attempt(
            id=self.id,
            email_id=self.email_id,
            number=self.number,
            epoch=self.epoch,
            state=self.state,
            provider_message_id=self.provider_message_id,
        )


def find(tx: Tx, *, request_tag: str | None, provider_message_id: str | None) -> Known | None:
    """Give the call that bears a tag, else the one under which a MessageId is saved; None if neither is."""
    return tx.one(
        Known,
        """
        SELECT a.id, a.email_id, a.number, a.epoch, a.state, a.provider_message_id,
               o.state AS email_state, holder.id AS holder_id
        FROM (VALUES (%(tag)s::uuid, %(message_id)s::text)) AS e (tag, message_id)
        LEFT JOIN mail_service.send_attempts tagged ON tagged.id = e.tag
        LEFT JOIN mail_service.send_attempts holder ON holder.provider_message_id = e.message_id
        JOIN mail_service.send_attempts a ON a.id = COALESCE(tagged.id, holder.id)
        JOIN mail_service.email_outbox o ON o.id = a.email_id
        """,
        {"tag": request_tag, "message_id": provider_message_id},
    )
