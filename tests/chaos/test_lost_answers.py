"""Seen in a chaos run: the answer to a claim's commit is lost, and what was leased must not be forgotten."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

import psycopg
import pytest

from mail_service.domain.outcomes import Held, HoldScope
from mail_service.errors import CommitUnknown
from mail_service.runtime import Runtime
from mail_service.store.database import Transactions, Tx
from mail_service.workflows import dispatch, observe, record
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.steps import call, write_email


class Forgetful(Transactions):
    """A database whose answer to the next commit is lost; the commit itself is done."""

    def __init__(self, rt: Runtime) -> None:
        self._db = rt.db
        self._lost = False

    transact_one = Transactions.transact
    """Work that commits itself is lost in the same way."""

    def connected(self) -> AbstractContextManager[psycopg.Connection]:
        return self._db.connected()

    @contextmanager
    def transaction(self) -> Generator[Tx]:
        with self._db.transaction() as tx:
            yield tx
        if not self._lost:
            self._lost = True
            raise CommitUnknown("the answer to the commit is lost")


@pytest.fixture
def held(rt: Runtime, mailer: ScriptedMailer, sql: Sql) -> Runtime:
    """The account is held, three emails wait, and the hold may be probed."""
    for number in range(3):
        write_email(rt, f"order-{number}", to=(f"a{number}@example.com",))
    mailer.answers(Held(scope=HoldScope.ACCOUNT, error_class="sending_paused", error_code=None))
    assert record.results(rt, [call(rt, claim) for claim in dispatch.take(rt, 1)]) == []
    sql.advance(2 * rt.settings.retry_base_seconds)
    return rt


def test_a_probe_is_found_again_and_clears_its_hold(held: Runtime) -> None:
    probes, _ = dispatch.take_probes(replace(held, db=Forgetful(held)))
    assert len(probes) == 1
    assert record.results(held, [call(held, probe) for probe in probes]) == []
    assert observe.open_holds(held) == []


def test_a_wave_is_found_again(rt: Runtime) -> None:
    for number in range(3):
        write_email(rt, f"order-{number}", to=(f"a{number}@example.com",))
    assert len(dispatch.take(replace(rt, db=Forgetful(rt)), 5)) == 3
