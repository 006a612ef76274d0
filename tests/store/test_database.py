"""Transactions: their faults become one error, twins repeat them, and nothing is told before the commit."""

import select
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import LiteralString

import psycopg
import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory

from mail_service.domain.states import EmailState
from mail_service.errors import CommitUnknown, Impossible, SettingsError, Unavailable
from mail_service.runtime import Runtime
from mail_service.store import housekeeping, schema, views
from mail_service.store.database import Tx
from mail_service.store.pool import Database
from tests.conftest import Sql
from tests.steps import sign_up


@pytest.fixture
def one(database_url: str) -> Iterator[Database]:
    """A pool of one connection."""
    db = Database(database_url, name="tests", size=1)
    db.open()
    yield db
    db.close()


def test_a_database_that_takes_no_writes_is_unavailable(rt: Runtime) -> None:
    def write(tx: Tx) -> None:
        tx.run("SET TRANSACTION READ ONLY")
        housekeeping.beat(tx, "test")

    with pytest.raises(Unavailable, match="takes no writes"):
        rt.db.transact(write)


@pytest.mark.parametrize(
    "fault", ["SELECT pg_terminate_backend(pg_backend_pid())", "SELECT * FROM mail_service.nothing"]
)
def test_a_lost_connection_and_a_missing_table_are_unavailable(rt: Runtime, fault: str) -> None:
    def work(tx: Tx) -> None:
        tx.run(fault)  # pyright: ignore[reportArgumentType]

    with pytest.raises(Unavailable):
        rt.db.transact(work)
    with rt.db.transaction() as tx:
        assert tx.value(int, "SELECT 1") == 1


@pytest.mark.parametrize("then", ["SELECT 1", None], ids=["a statement", "the commit"])
def test_a_transaction_that_the_server_ended_for_being_idle_is_unavailable(
    one: Database, then: LiteralString | None
) -> None:
    def work(tx: Tx) -> None:
        tx.run("SET LOCAL idle_in_transaction_session_timeout = '1ms'")
        select.select([tx._connection], [], [], 10)
        if then is not None:
            tx.run(then)

    with pytest.raises(Unavailable) as refused:
        one.transact(work)
    assert not isinstance(refused.value, CommitUnknown)
    with one.transaction() as tx:
        assert tx.value(int, "SELECT 1") == 1


def test_a_fault_that_was_caught_inside_its_transaction_is_no_commit(
    one: Database, sql: Sql
) -> None:
    told: list[str] = []

    def work(tx: Tx) -> None:
        housekeeping.beat(tx, "test")
        tx.after_commit(lambda: told.append("committed"))
        with suppress(psycopg.Error):
            tx.run("SELECT 1 / 0")

    with pytest.raises(Impossible):
        one.transact(work)
    assert told == []
    assert sql.one("SELECT count(*) FROM mail_service.heartbeats") == 0


def test_a_server_that_is_not_there_is_unavailable_within_the_wait() -> None:
    db = Database("postgresql://127.0.0.1:1/none", name="tests", size=1, wait_seconds=0.2)
    db.open()
    try:
        with pytest.raises(Unavailable), db.transaction():
            pass
    finally:
        db.close()


def test_a_database_without_the_schema_says_what_to_run(postgres: object, rt: Runtime) -> None:
    db = Database(postgres.url("postgres"), name="tests", size=1)  # type: ignore[attr-defined]
    db.open()
    try:
        with pytest.raises(Unavailable, match="mail-service migrate"), db.transaction():
            pass
    finally:
        db.close()


def test_a_url_that_libpq_cannot_read_is_a_bad_setting_and_is_not_quoted() -> None:
    with pytest.raises(SettingsError) as refused:
        Database("postgresql://u:hunter2secret@[/x", name="tests", size=1)
    assert "hunter2" not in str(refused.value)


def test_two_transactions_that_would_wait_for_each_other_for_ever_both_succeed(
    runtime_of: Callable[..., Runtime], sql: Sql
) -> None:
    rt = runtime_of()
    with rt.db.transaction() as tx:
        housekeeping.beat(tx, "a")
        housekeeping.beat(tx, "b")
    met = threading.Barrier(2)

    def work(names: tuple[str, str]) -> None:
        tries: list[int] = []

        def both(tx: Tx) -> None:
            housekeeping.beat(tx, names[0])
            if not tries:
                tries.append(1)
                met.wait(5)
            housekeeping.beat(tx, names[1])

        rt.db.transact(both)

    threads = [threading.Thread(target=work, args=(names,)) for names in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()


def last_statement(sql: Sql, connection: int) -> str:
    return sql.one("SELECT query FROM pg_stat_activity WHERE pid = %s", connection)


def test_a_single_statement_is_all_that_the_server_hears(one: Database, sql: Sql) -> None:
    pid = 0
    with one.statement() as tx:
        pid = tx.value(int, "SELECT pg_backend_pid()")
    assert last_statement(sql, pid) == "SELECT pg_backend_pid()"
    # Nor is the server asked whether the connection lives, when it goes to the next one.
    with one.statement():
        pass
    assert last_statement(sql, pid) == "SELECT pg_backend_pid()"


def test_a_single_statement_is_committed_and_what_follows_on_its_connection_can_roll_back(
    one: Database, sql: Sql
) -> None:
    def fail(tx: Tx) -> None:
        housekeeping.beat(tx, "second")
        raise RuntimeError("before the commit")

    told: list[str] = []
    with one.statement() as tx:
        housekeeping.beat(tx, "first")
        tx.after_commit(lambda: told.append("first"))
    with pytest.raises(RuntimeError):
        one.transact(fail)
    assert [row["name"] for row in sql("SELECT name FROM mail_service.heartbeats")] == ["first"]
    assert told == ["first"]


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("SELECT pg_terminate_backend(pg_backend_pid())", "not reachable"),
        ("SELECT * FROM mail_service.nothing", "mail-service migrate"),
        ("SELECT pg_cancel_backend(pg_backend_pid())", "too long"),
    ],
)
def test_a_single_statement_has_the_faults_of_a_transaction_and_leaves_a_fit_connection(
    one: Database, fault: str, said: str
) -> None:
    with pytest.raises(Unavailable, match=said), one.statement() as tx:
        tx.run(fault)  # pyright: ignore[reportArgumentType]
    one.transact(lambda tx: housekeeping.beat(tx, "after"))


def test_a_connection_that_ended_while_it_was_idle_is_found_before_it_is_used(
    one: Database, sql: Sql
) -> None:
    pids: list[int] = []
    for _ in range(3):
        with one.statement() as tx:
            pids.append(tx.value(int, "SELECT pg_backend_pid()"))
        # Waits until it is gone, whose good-bye has come by then.
        assert sql.one("SELECT pg_terminate_backend(%s, 10000)", pids[-1])
    assert len(set(pids)) == 3


def test_nothing_is_told_of_a_transaction_that_did_not_commit(rt: Runtime) -> None:
    told: list[str] = []

    def fail(tx: Tx) -> None:
        tx.after_commit(lambda: told.append("too early"))
        raise RuntimeError("the process died before the commit")

    with pytest.raises(RuntimeError):
        rt.db.transact(fail)
    rt.db.transact(lambda tx: tx.after_commit(lambda: told.append("committed")))
    assert told == ["committed"]


def test_a_transaction_has_one_time(rt: Runtime, sql: Sql) -> None:
    with rt.db.transaction() as tx:
        before = tx.now
        tx.run("SELECT pg_sleep(0.01)")
        assert tx.value(type(before), "SELECT mail_service.clock()") == before


def test_enums_come_back_as_their_members(rt: Runtime) -> None:
    email = sign_up(rt)
    with rt.db.transaction() as tx:
        view = views.by_id(tx, email.email.id)
    assert view is not None
    assert view.email.state is EmailState.PENDING


def test_the_journal_cannot_be_rewritten(rt: Runtime, sql: Sql) -> None:
    sign_up(rt)
    for statement in (
        "UPDATE mail_service.email_transitions SET actor = 'nobody'",
        "DELETE FROM mail_service.email_transitions",
    ):
        with pytest.raises(psycopg.errors.RestrictViolation):
            sql(statement)


@pytest.mark.parametrize(
    "nonsense",
    [
        "state = 'sending'",
        "lease_token = gen_random_uuid()",
        "next_attempt_at = NULL",
        "state = 'submitted'",
        "finished_at = now()",
        "epoch = -1",
        "priority = 10",
    ],
)
def test_columns_that_do_not_go_with_the_state_are_refused(
    rt: Runtime, sql: Sql, nonsense: str
) -> None:
    sign_up(rt)
    with pytest.raises(psycopg.errors.CheckViolation):
        sql(f"UPDATE mail_service.email_outbox SET {nonsense}")


def test_a_transaction_on_a_server_that_never_answers_is_cut(
    monkeypatch: pytest.MonkeyPatch, database_url: str, sql: Sql
) -> None:
    """The server sleeps instead of answering; its own limit is lifted, as a frozen one's would be."""
    monkeypatch.setattr("mail_service.store.database.TRANSACTION_SECONDS", 0.3)
    db = Database(database_url, name="tests", size=1)
    db.open()

    def sleep(tx: Tx) -> None:
        tx.run("SET LOCAL statement_timeout = 0")
        tx.run("SELECT pg_sleep(30)")

    try:
        with pytest.raises(Unavailable):
            db.transact(sleep)
        with db.transaction() as tx:
            assert tx.value(int, "SELECT 1") == 1
    finally:
        db.close()


def test_the_newest_file_is_the_newest_revision() -> None:
    config = Config()
    config.set_main_option("script_location", str(schema.MIGRATIONS))
    assert ScriptDirectory.from_config(config).get_current_head() == schema.newest()
