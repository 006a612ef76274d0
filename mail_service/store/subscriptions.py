"""SNS subscriptions: offers that wait for our confirmation, and what became of them."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from mail_service.store.database import Tx

TOKEN_LIVES_SECONDS = 2 * 24 * 3600
"""How long SNS keeps a confirmation token (SNS service model: two days)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """An offer to be confirmed. The token is a secret, so repr leaves it out."""

    id: UUID
    topic_arn: str
    token: str

    def __repr__(self) -> str:
        return f"Offer(id={self.id!r}, topic_arn={self.topic_arn!r})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One subscription as a list shows it, without its token."""

    id: UUID
    topic_arn: str
    state: str
    subscription_arn: str | None
    tries: int
    last_error: str | None
    offered_at: datetime
    settled_at: datetime | None


def listed(tx: Tx, limit: int) -> list[Subscription]:
    """Give what SNS offered and what became of it, newest first."""
    return tx.all(
        Subscription,
        """
        SELECT id, topic_arn, state::text AS state, subscription_arn, tries, last_error,
               offered_at, settled_at
        FROM mail_service.sns_subscriptions ORDER BY offered_at DESC, id DESC LIMIT %s
        """,
        (limit,),
    )


def add_offer(tx: Tx, *, offer_id: UUID, topic_arn: str, sns_message_id: str, token: str) -> bool:
    """Store an offer; False when it is stored already."""
    return bool(
        tx.run(
            """
            INSERT INTO mail_service.sns_subscriptions (id, topic_arn, sns_message_id, token)
            VALUES (%s, %s, %s, %s)
            ON CONFLICT (topic_arn, sns_message_id) DO NOTHING
            """,
            (offer_id, topic_arn, sns_message_id, token),
        )
    )


def add_unsubscribed(tx: Tx, *, notice_id: UUID, topic_arn: str, sns_message_id: str) -> bool:
    """Store that somebody cut a subscription off; False when it is stored already."""
    return bool(
        tx.run(
            """
            INSERT INTO mail_service.sns_subscriptions
                (id, topic_arn, sns_message_id, state, settled_at)
            VALUES (%s, %s, %s, 'unsubscribed', mail_service.clock())
            ON CONFLICT (topic_arn, sns_message_id) DO NOTHING
            """,
            (notice_id, topic_arn, sns_message_id),
        )
    )


def open_offers(tx: Tx, limit: int) -> list[Offer]:
    """Give offers that are not confirmed yet and whose token still lives."""
    return tx.all(
        Offer,
        """
        SELECT id, topic_arn, token FROM mail_service.sns_subscriptions
        WHERE state = 'offered' AND token IS NOT NULL
          AND offered_at > mail_service.clock() - make_interval(secs => %s)
        ORDER BY offered_at LIMIT %s
        """,
        (TOKEN_LIVES_SECONDS, limit),
    )


def confirmed(tx: Tx, offer_id: UUID, subscription_arn: str) -> bool:
    """Record a confirmation and forget the token; False when it was recorded before."""
    return bool(
        tx.run(
            """
            UPDATE mail_service.sns_subscriptions
            SET state = 'confirmed', token = NULL, subscription_arn = %s,
                tries = tries + 1, last_error = NULL, settled_at = mail_service.clock()
            WHERE id = %s AND state = 'offered'
            """,
            (subscription_arn, offer_id),
        )
    )


def not_confirmed(tx: Tx, offer_id: UUID, why: str) -> None:
    """Record a try that failed; the offer stays open."""
    tx.run(
        """
        UPDATE mail_service.sns_subscriptions SET tries = tries + 1, last_error = %s
        WHERE id = %s AND state = 'offered'
        """,
        (why, offer_id),
    )


def expire(tx: Tx) -> int:
    """Close offers whose token has died; gives how many."""
    return tx.run(
        """
        UPDATE mail_service.sns_subscriptions
        SET state = 'expired', token = NULL, settled_at = mail_service.clock()
        WHERE state = 'offered'
          AND offered_at <= mail_service.clock() - make_interval(secs => %s)
        """,
        (TOKEN_LIVES_SECONDS,),
    )
