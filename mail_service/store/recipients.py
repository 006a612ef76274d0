"""Recipients and the facts about them. Facts are merged by the caller under the email's lock."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from mail_service.domain.facts import RecipientFacts
from mail_service.store.database import Tx


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """One recipient of a call, with what is known of it."""

    id: UUID
    address: str | None
    address_hash: bytes
    delivered_at: datetime | None
    bounced_at: datetime | None
    bounce_type: str | None
    bounce_subtype: str | None
    complained_at: datetime | None
    complaint_type: str | None
    complaint_subtype: str | None
    delayed_at: datetime | None
    rejected_at: datetime | None

    @property
    def facts(self) -> RecipientFacts:
        """What is known, as the domain merges it."""
        return RecipientFacts(
            delivered_at=self.delivered_at,
            bounced_at=self.bounced_at,
            bounce_type=self.bounce_type,
            bounce_subtype=self.bounce_subtype,
            complained_at=self.complained_at,
            complaint_type=self.complaint_type,
            complaint_subtype=self.complaint_subtype,
            delayed_at=self.delayed_at,
            rejected_at=self.rejected_at,
        )


def in_call(tx: Tx, attempt_id: UUID) -> Sequence[Called]:
    """Give the recipients that a call named, in order; nobody else is touched by its events."""
    return tx.all(
        Called,
        """
        SELECT r.id, r.address, r.address_hash, r.delivered_at, r.bounced_at, r.bounce_type,
               r.bounce_subtype, r.complained_at, r.complaint_type, r.complaint_subtype,
               r.delayed_at, r.rejected_at
        FROM mail_service.attempt_recipients ar
        JOIN mail_service.email_recipients r ON r.id = ar.recipient_id
        WHERE ar.attempt_id = %s ORDER BY r.position
        """,
        (attempt_id,),
    )


def save_facts(tx: Tx, recipient_id: UUID, facts: RecipientFacts) -> None:
    """Write a recipient's merged facts."""
    tx.run(
        """
        UPDATE mail_service.email_recipients
        SET delivered_at = %(delivered_at)s, bounced_at = %(bounced_at)s,
            bounce_type = %(bounce_type)s, bounce_subtype = %(bounce_subtype)s,
            complained_at = %(complained_at)s, complaint_type = %(complaint_type)s,
            complaint_subtype = %(complaint_subtype)s, delayed_at = %(delayed_at)s,
            rejected_at = %(rejected_at)s
        WHERE id = %(id)s
        """,
        {
            "id": recipient_id,
            "delivered_at": facts.delivered_at,
            "bounced_at": facts.bounced_at,
            "bounce_type": facts.bounce_type,
            "bounce_subtype": facts.bounce_subtype,
            "complained_at": facts.complained_at,
            "complaint_type": facts.complaint_type,
            "complaint_subtype": facts.complaint_subtype,
            "delayed_at": facts.delayed_at,
            "rejected_at": facts.rejected_at,
        },
    )
