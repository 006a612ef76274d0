"""Stored events: what storing one promises to whoever else is at work."""

from datetime import UTC, datetime
from uuid import UUID

from mail_service.domain.events import EventKind, EventStatus
from mail_service.runtime import Runtime
from mail_service.store import events
from mail_service.store.events import NewEvent

EVENT = NewEvent(
    id=UUID(int=1),
    topic_arn="topic",
    sns_message_id="sns-1",
    kind=EventKind.SEND,
    status=EventStatus.UNMATCHED,
    provider_message_id="message-1",
    request_tag=None,
    occurred_at=datetime(2026, 11, 29, 10, tzinfo=UTC),
    facts=(),
    payload="{}",
    named=(),
)


def test_once_an_event_is_stored_its_transaction_and_no_other_waits_for_a_lock_but_shortly(
    rt: Runtime,
) -> None:
    setting = "SELECT setting::integer FROM pg_settings WHERE name = 'lock_timeout'"
    with rt.db.transaction() as tx:
        usual = tx.value(int, setting)
        assert events.add(tx, EVENT) == tx.now
        assert tx.value(int, setting) == events.LOCK_SECONDS * 1000 < usual
    with rt.db.transaction() as tx:
        assert events.add(tx, EVENT) is None, "a twin"
        assert tx.value(int, setting) == events.LOCK_SECONDS * 1000
    with rt.db.transaction() as tx:
        assert tx.value(int, setting) == usual
