"""Facts of recipients: merged on top of what others have written, never over it."""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from uuid import UUID

import psycopg

from mail_service.domain.facts import RecipientFacts
from mail_service.runtime import Runtime
from mail_service.store import recipients
from mail_service.store.recipients import Called
from tests.conftest import Sql
from tests.steps import send_all, write_email

AT = datetime(2026, 11, 29, 10, tzinfo=UTC)
PEOPLE = tuple(f"person-{number}@example.com" for number in range(3))


def one_call(rt: Runtime) -> UUID:
    """Give an attempt that named several recipients."""
    write_email(rt, to=PEOPLE)
    (claim,) = send_all(rt)
    return claim.row.attempt_id


def until_somebody_waits(sql: Sql, work: Future[list[Called]]) -> None:
    """Wait until the work has come to a lock, or to its end."""
    for _ in range(600):
        waiting = sql.one("SELECT count(*) FROM pg_locks WHERE NOT granted")
        if waiting or work.done():
            return
        time.sleep(0.05)


def test_whoever_reads_facts_to_merge_reads_them_after_the_one_who_writes_them_now(
    rt: Runtime, sql: Sql
) -> None:
    attempt_id = one_call(rt)

    def read() -> list[Called]:
        with rt.db.transaction() as tx:
            return list(recipients.in_call(tx, attempt_id))

    with ThreadPoolExecutor(1) as pool, psycopg.connect(sql.url) as other:
        other.execute("UPDATE mail_service.email_recipients SET delivered_at = %s", (AT,))
        reading = pool.submit(read)
        until_somebody_waits(sql, reading)
        other.commit()
        assert [one.delivered_at for one in reading.result()] == [AT] * len(PEOPLE)


def test_facts_of_several_recipients_are_each_saved_whole(rt: Runtime) -> None:
    attempt_id = one_call(rt)
    bounced = RecipientFacts(
        delivered_at=AT,
        bounced_at=AT,
        bounce_type="Permanent",
        bounce_subtype="General",
        complained_at=AT,
        complaint_type="abuse",
        complaint_subtype="odd",
        delayed_at=AT,
        rejected_at=AT,
    )
    with rt.db.transaction() as tx:
        first, second, third = recipients.in_call(tx, attempt_id)
        assert (first.address, second.address, third.address) == PEOPLE
        recipients.save_facts(tx, {second.id: bounced, first.id: RecipientFacts(delayed_at=AT)})
        recipients.save_facts(tx, {})
    with rt.db.transaction() as tx:
        facts = [one.facts for one in recipients.in_call(tx, attempt_id)]
    assert facts == [RecipientFacts(delayed_at=AT), bounced, RecipientFacts()]
