"""What is deleted when its days are over."""

from mail_service.store.database import Tx


def erase_contents(tx: Tx, *, older_than_days: int, limit: int) -> int:
    """Delete template data and reply addresses of emails that ended this long ago; gives how many."""
    return tx.run(
        """
        DELETE FROM mail_service.email_payloads
        WHERE email_id IN (
            SELECT o.id FROM mail_service.email_outbox o
            JOIN mail_service.email_payloads p ON p.email_id = o.id
            WHERE o.finished_at < mail_service.clock() - make_interval(days => %s)
            LIMIT %s FOR UPDATE OF o SKIP LOCKED)
        """,
        (older_than_days, limit),
    )
