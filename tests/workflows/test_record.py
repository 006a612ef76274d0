"""Acceptances that meet nothing but their claim are written in one statement, and alike in every row."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from mail_service.domain.outcomes import Accepted, Held, HoldScope, Refused, Unknown
from mail_service.runtime import Runtime
from mail_service.store import acceptances, outbox
from mail_service.store.database import Transactions
from mail_service.workflows import dispatch, record
from mail_service.workflows.dispatch import Ended
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.steps import bring, call, look, ses_event, take_one, write_email


class Alone(Transactions):
    """A database for single statements: whoever opens a transaction fails."""

    def __init__(self, rt: Runtime) -> None:
        self.connected = rt.db.connected  # type: ignore[method-assign]

    def transaction(self) -> Any:
        raise AssertionError("a transaction was opened")


def accepted(ended: Ended, message_id: str) -> Ended:
    return replace(ended, result=Accepted(provider_message_id=message_id))


def calls(rt: Runtime, *keys: str) -> list[Ended]:
    """Write an email for each, and call SES for all."""
    for key in keys:
        write_email(rt, key, to=(f"{key}@example.com",))
    return [accepted(call(rt, claim), f"m-{claim.row.email_id}") for claim in dispatch.take(rt, 9)]


def rows(sql: Sql, ended: Ended) -> list[dict[str, Any]]:
    """All that is written of an email, but for what names it, and of a time only that there is one."""
    about = {
        "email_outbox": "id = %s",
        "send_attempts": "email_id = %s",
        "email_transitions": "email_id = %s",
    }
    names = {"dedup_key", "intent_hash", "provider_message_id", "lease_token", "request_tag"}
    return [
        {
            name: "a time" if isinstance(value, datetime) else value
            for name, value in row.items()
            if name not in names and not name.endswith("id")
        }
        for table, which in about.items()
        for row in sql(
            f"SELECT * FROM mail_service.{table} WHERE {which} ORDER BY id", ended.row.email_id
        )
    ]


def test_a_group_of_acceptances_is_one_statement(rt: Runtime) -> None:
    ended = calls(rt, "a", "b", "c")
    assert record.results(replace(rt, db=Alone(rt)), ended) == []
    for one in ended:
        seen = look(rt, one.row.email_id)
        assert seen.email.state == "submitted"
        assert seen.attempts[0].provider_message_id == f"m-{one.row.email_id}"


def test_it_leaves_what_settling_leaves(rt: Runtime, sql: Sql) -> None:
    alone, among, refused = calls(rt, "a", "b", "c")
    refused = replace(refused, result=Refused(error_class="rejected"))
    assert record.results(replace(rt, db=Alone(rt)), [alone]) == []
    assert record.results(rt, [among, refused]) == []
    assert rows(sql, alone) == rows(sql, among)
    assert rows(sql, alone) != rows(sql, refused)


def held(rt: Runtime, sql: Sql, ended: Ended) -> AbstractContextManager[object]:
    stack = ExitStack()
    tx = stack.enter_context(rt.db.transaction())
    assert outbox.lock(tx, ended.row.email_id)
    return stack


def lease_over(rt: Runtime, sql: Sql, ended: Ended) -> AbstractContextManager[object]:
    sql(
        "UPDATE mail_service.email_outbox SET state = 'ambiguous', lease_token = NULL,"
        " lease_expires_at = NULL WHERE id = %s",
        ended.row.email_id,
    )
    return nullcontext()


def known_by_an_event(rt: Runtime, sql: Sql, ended: Ended) -> AbstractContextManager[object]:
    bring(rt, ses_event("Send", tag=str(ended.row.attempt_id), message_id="m-1"))
    return nullcontext()


def event_waits(rt: Runtime, sql: Sql, ended: Ended) -> AbstractContextManager[object]:
    bring(rt, ses_event("Delivery", message_id="m-0"))
    return nullcontext()


def id_of_another(rt: Runtime, sql: Sql, ended: Ended) -> AbstractContextManager[object]:
    write_email(rt, "other", to=("other@example.com",))
    assert record.results(rt, [accepted(call(rt, take_one(rt)), "m-0")]) == []
    return nullcontext()


def unknowns_counted(rt: Runtime, sql: Sql, ended: Ended) -> AbstractContextManager[object]:
    write_email(rt, "other", to=("other@example.com",))
    unknown = replace(call(rt, take_one(rt)), result=Unknown(error_class="read_timeout"))
    assert record.results(rt, [unknown]) == []
    return nullcontext()


@pytest.mark.parametrize(
    "circumstance",
    [held, lease_over, known_by_an_event, event_waits, id_of_another, unknowns_counted],
)
def test_whatever_met_more_than_its_claim_is_left_to_be_settled(
    rt: Runtime,
    sql: Sql,
    circumstance: Callable[[Runtime, Sql, Ended], AbstractContextManager[object]],
) -> None:
    (ended,) = calls(rt, "a")
    with circumstance(rt, sql, ended):
        before = sql.dump()
        assert accept(rt, ended, "m-0") == set()
        assert sql.dump() == before


def test_a_probe_is_left_to_be_settled(rt: Runtime, mailer: ScriptedMailer, sql: Sql) -> None:
    write_email(rt, "a")
    mailer.answers(Held(scope=HoldScope.ACCOUNT, error_class="sending_paused", error_code=None))
    assert record.results(rt, [call(rt, take_one(rt))]) == []
    sql.advance(2 * rt.settings.retry_base_seconds)
    (probe,), _ = dispatch.take_probes(rt)
    ended = call(rt, probe)
    assert accept(rt, ended, "m-0") == set()
    assert record.results(rt, [accepted(ended, "m-0")]) == []
    assert sql.one("SELECT count(*) FROM mail_service.holds WHERE cleared_at IS NULL") == 0


def test_two_calls_with_one_message_id_are_left_to_be_settled(rt: Runtime) -> None:
    first, second = (accepted(ended, "m-0") for ended in calls(rt, "a", "b"))
    assert record.results(rt, [first, second]) == []
    for ended in (first, second):
        seen = look(rt, ended.row.email_id)
        assert (seen.email.state, seen.attempts[0].provider_message_id) == ("submitted", None)


def test_of_a_group_the_others_are_written(rt: Runtime, sql: Sql) -> None:
    one, other = calls(rt, "a", "b")
    with held(rt, sql, one):
        assert record.results(rt, [one, other]) == [one]
        assert look(rt, other.row.email_id).email.state == "submitted"
    assert record.results(rt, [one]) == []


def accept(rt: Runtime, ended: Ended, message_id: str) -> set[Any]:
    attempt_id, email_id = ended.row.attempt_id, ended.row.email_id
    return rt.db.transact_one(
        lambda tx: acceptances.accept(tx, {attempt_id: email_id}, {attempt_id: message_id})
    )
