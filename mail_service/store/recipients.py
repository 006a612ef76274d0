"""Recipients and the facts about them. Facts are merged by the caller under the recipients' locks."""

from collections.abc import Mapping, Sequence
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
    """Lock and give the recipients that a call named, in order; nobody else is touched by its events."""
    return tx.all(
        Called,
        """
        SELECT r.id, r.address, r.address_hash, r.delivered_at, r.bounced_at, r.bounce_type,
               r.bounce_subtype, r.complained_at, r.complaint_type, r.complaint_subtype,
               r.delayed_at, r.rejected_at
        FROM mail_service.email_recipients r
        -- Not a join: without statistics (a new database, a restored one) a plan reads the whole table.
        WHERE r.id = ANY(ARRAY(SELECT recipient_id FROM mail_service.attempt_recipients
                               WHERE attempt_id = %s))
        ORDER BY r.position FOR UPDATE
        """,
        (attempt_id,),
    )


def save_facts(tx: Tx, merged: Mapping[UUID, RecipientFacts]) -> None:
    """Write the merged facts of locked recipients."""
    if not merged:
        return
    facts = merged.values()
    tx.run(
        """
        UPDATE mail_service.email_recipients r
        SET delivered_at = f.delivered_at, bounced_at = f.bounced_at,
            bounce_type = f.bounce_type, bounce_subtype = f.bounce_subtype,
            complained_at = f.complained_at, complaint_type = f.complaint_type,
            complaint_subtype = f.complaint_subtype, delayed_at = f.delayed_at,
            rejected_at = f.rejected_at
        FROM unnest(
            %(ids)s::uuid[], %(delivered)s::timestamptz[], %(bounced)s::timestamptz[],
            %(bounce_types)s::text[], %(bounce_subtypes)s::text[], %(complained)s::timestamptz[],
            %(complaint_types)s::text[], %(complaint_subtypes)s::text[],
            %(delayed)s::timestamptz[], %(rejected)s::timestamptz[]
        ) AS f (id, delivered_at, bounced_at, bounce_type, bounce_subtype, complained_at,
                complaint_type, complaint_subtype, delayed_at, rejected_at)
        -- The ids once more, so that a plan made while the table was small does not read all of it.
        WHERE r.id = f.id AND r.id = ANY(%(ids)s)
        """,
        {
            "ids": list(merged),
            "delivered": [f.delivered_at for f in facts],
            "bounced": [f.bounced_at for f in facts],
            "bounce_types": [f.bounce_type for f in facts],
            "bounce_subtypes": [f.bounce_subtype for f in facts],
            "complained": [f.complained_at for f in facts],
            "complaint_types": [f.complaint_type for f in facts],
            "complaint_subtypes": [f.complaint_subtype for f in facts],
            "delayed": [f.delayed_at for f in facts],
            "rejected": [f.rejected_at for f in facts],
        },
    )
