"""Intake: all or nothing, once per key, and every bad field named."""

import hmac
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from mail_service.errors import Conflict, InvalidFields
from mail_service.runtime import Runtime
from mail_service.store import accounts
from mail_service.store.database import Tx
from mail_service.workflows import idempotency, registration, submit
from mail_service.workflows.idempotency import Answer, Key
from mail_service.workflows.registration import AccountRequest, Opened
from mail_service.workflows.submit import EmailRequest
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.steps import look, send_all, sign_up, write_email


def test_an_account_comes_with_its_email_recipient_and_journal_row(rt: Runtime, sql: Sql) -> None:
    email = sign_up(rt, "Ada@Example.com", name="Ada").email
    (row,) = sql(
        "SELECT account_id, dedup_key, state::text, next_attempt_at, created_at"
        " FROM mail_service.email_outbox"
    )
    assert row["dedup_key"] == f"welcome:{row['account_id']}:v1"
    assert (row["state"], row["next_attempt_at"]) == ("pending", row["created_at"])
    assert sql.one("SELECT address FROM mail_service.email_recipients") == "Ada@example.com"
    assert (
        sql.one(
            "SELECT to_state::text FROM mail_service.email_transitions WHERE from_state IS NULL"
        )
        == "pending"
    )
    assert look(rt, email.id).email == email


def test_a_transaction_that_fails_after_the_account_leaves_neither_row(
    rt: Runtime, sql: Sql
) -> None:
    write = registration.open_account(rt, AccountRequest(email="ada@example.com"), actor="test")

    def crash(tx: Tx) -> None:
        write(tx)
        raise RuntimeError("the process died before the commit")

    with pytest.raises(RuntimeError, match="died"):
        rt.db.transact(crash)
    assert sql.one("SELECT count(*) FROM mail_service.accounts") == 0
    assert sql.one("SELECT count(*) FROM mail_service.email_outbox") == 0


def test_an_account_that_stands_without_its_email_is_refused_as_broken(
    rt: Runtime, sql: Sql
) -> None:
    """The account's id is new each time, so its email can't be there; if it is, nothing is written."""
    write = registration.open_account(rt, AccountRequest(email="ada@example.com"), actor="test")
    rt.db.transact(write)
    with pytest.raises(Conflict):
        rt.db.transact(
            registration.open_account(rt, AccountRequest(email="ADA@example.com"), actor="test")
        )
    orphans = sql.one(
        "SELECT count(*) FROM mail_service.accounts a FULL JOIN mail_service.email_outbox o"
        " ON o.account_id = a.id WHERE a.id IS NULL OR o.id IS NULL"
    )
    assert orphans == 0


def test_ten_sign_ups_of_one_address_at_once_make_one_account(
    runtime_of: Callable[..., Runtime], sql: Sql
) -> None:
    rt = runtime_of()

    def once(_: int) -> bool:
        try:
            sign_up(rt, "ada@example.com")
        except Conflict:
            return False
        return True

    with ThreadPoolExecutor(10) as pool:
        assert sum(pool.map(once, range(10))) == 1
    assert sql.one("SELECT count(*) FROM mail_service.email_outbox") == 1


def test_a_dedup_key_with_the_same_intent_gives_the_email_that_stands(
    rt: Runtime, sql: Sql
) -> None:
    first = write_email(rt, "order-1", data={"name": "Ada"})
    again = rt.db.transact(
        submit.submit_email(
            rt,
            EmailRequest(
                dedup_key="order-1",
                template="welcome-v1",
                to=("ada@EXAMPLE.com",),
                data={"name": "Ada"},
            ),
            actor="test",
        )
    )
    assert (again.created, again.email.email.id) == (False, first.email.id)
    assert sql.one("SELECT count(*) FROM mail_service.email_outbox") == 1


@pytest.mark.parametrize(
    "other",
    [
        {"to": ("bob@example.com",)},
        {"data": {"name": "Bob"}},
        {"template": "password-reset-v1", "data": {"link": "https://example.com/r"}},
        {"reply_to": ("help@example.com",)},
        {"sender": "Other <shop@example.com>"},
        {"on_ambiguous": "resend"},
        {"to": ("ada@example.com", "ada@example.com")},
        {"cc": ("bob@example.com",)},
        {"bcc": ("bob@example.com",)},
        {"headers": {"X-Order": "1"}},
    ],
)
def test_a_dedup_key_with_another_intent_is_a_conflict(
    rt: Runtime, sql: Sql, other: dict[str, Any]
) -> None:
    write_email(rt, "order-1")
    asked = {"dedup_key": "order-1", "template": "welcome-v1", "to": ("ada@example.com",)} | other
    with pytest.raises(Conflict):
        rt.db.transact(submit.submit_email(rt, EmailRequest(**asked), actor="test"))
    assert sql.one("SELECT count(*) FROM mail_service.email_outbox") == 1


def test_one_dedup_key_at_once_from_ten_callers_makes_one_email(rt: Runtime, sql: Sql) -> None:
    with ThreadPoolExecutor(10) as pool:
        ids = {
            email.email.id for email in pool.map(lambda _: write_email(rt, "order-1"), range(10))
        }
    assert len(ids) == 1
    assert sql.one("SELECT count(*) FROM mail_service.email_outbox") == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"to": ("not an address",)}, "to.0"),
        ({"to": ("ok@example.com", "jö@example.com")}, "to.1"),
        ({"to": ()}, "to"),
        ({"to": tuple(f"a{n}@example.com" for n in range(51))}, "to"),
        ({"cc": ("x",)}, "cc.0"),
        ({"bcc": ("ok@example.com", "x")}, "bcc.1"),
        ({"cc": tuple(f"a{n}@example.com" for n in range(50))}, "cc"),
        ({"bcc": tuple(f"a{n}@example.com" for n in range(50))}, "bcc"),
        ({"reply_to": tuple(f"a{n}@example.com" for n in range(11))}, "reply_to"),
        ({"to": (), "cc": ("bob@example.com",)}, "to"),
        ({"headers": {"Subject": "Hello"}}, "headers.Subject"),
        ({"headers": {f"X-{n}": "v" for n in range(15)}}, "headers"),
        ({"template": "nothing-v1"}, "template"),
        ({"template": "password-reset-v1"}, "data.link"),
        ({"sender": "other@elsewhere.example"}, "from"),
        ({"sender": "Eve\r\nBcc: eve@example.com <shop@example.com>"}, "from"),
        ({"reply_to": ("x",)}, "reply_to.0"),
        ({"dedup_key": "welcome ada@example.com"}, "dedup_key"),
        ({"dedup_key": "welcome ada%40example.com"}, "dedup_key"),
        ({"dedup_key": ""}, "dedup_key"),
        ({"dedup_key": "x" * 201}, "dedup_key"),
        ({"dedup_key": "ключ"}, "dedup_key"),
    ],
)
def test_a_bad_field_is_named_and_nothing_is_written(
    rt: Runtime, sql: Sql, change: dict[str, Any], field: str
) -> None:
    asked = {"dedup_key": "order-1", "template": "welcome-v1", "to": ("ada@example.com",)} | change
    with pytest.raises(InvalidFields) as refused:
        submit.submit_email(rt, EmailRequest(**asked), actor="test")
    assert field in refused.value.fields
    assert sql.one("SELECT count(*) FROM mail_service.email_outbox") == 0


@pytest.mark.parametrize("field", ["to", "cc", "bcc", "reply_to"])
def test_addresses_beyond_the_limit_are_counted_and_not_looked_at(rt: Runtime, field: str) -> None:
    many = ["no address"] * 10_000
    asked = EmailRequest(
        **{"dedup_key": "order-1", "template": "welcome-v1", "to": ("a@example.com",), field: many}
    )
    with pytest.raises(InvalidFields) as refused:
        submit.submit_email(rt, asked, actor="test")
    assert set(refused.value.fields) == {field}


def test_an_address_of_an_account_counts_as_a_recipient(rt: Runtime) -> None:
    asked = EmailRequest(
        dedup_key="order-1",
        template="welcome-v1",
        account_id=rt.new_id(),
        bcc=[f"a{n}@example.com" for n in range(50)],
    )
    with pytest.raises(InvalidFields) as refused:
        submit.submit_email(rt, asked, actor="test")
    assert set(refused.value.fields) == {"bcc"}


def test_copies_and_headers_go_on_the_wire_in_their_order_and_are_known_again(
    rt: Runtime, mailer: ScriptedMailer
) -> None:
    asked: dict[str, Any] = {
        "to": ("b@example.com", "a@example.com"),
        "cc": ("d@example.com", "c@example.com", "d@example.com"),
        "bcc": ("E@Example.com",),
        "headers": {"X-Zoo": "1", "X-Art": "2"},
    }
    first = write_email(rt, **asked)
    assert [(r.kind, r.address) for r in first.recipients] == [
        *(("to", "b@example.com"), ("to", "a@example.com"), ("cc", "d@example.com")),
        *(("cc", "c@example.com"), ("cc", "d@example.com"), ("bcc", "E@example.com")),
    ]
    assert write_email(rt, **asked).email.id == first.email.id
    send_all(rt)
    (call,) = mailer.calls
    assert call.to == ("b@example.com", "a@example.com")
    assert call.cc == ("d@example.com", "c@example.com", "d@example.com")
    assert call.bcc == ("E@example.com",)
    assert call.headers == (("X-Zoo", "1"), ("X-Art", "2"))


def test_copies_of_an_account_s_email_follow_its_own_address(
    rt: Runtime, mailer: ScriptedMailer
) -> None:
    account_id = sign_up(rt, "ada@example.com").email.account_id
    asked = EmailRequest(
        dedup_key="receipt-1",
        template="welcome-v1",
        account_id=account_id,
        cc=("bob@example.com",),
    )
    rt.db.transact(submit.submit_email(rt, asked, actor="test"))
    send_all(rt)
    call = mailer.calls[-1]
    assert (call.to, call.cc) == (("ada@example.com",), ("bob@example.com",))


def test_one_key_and_intent_are_known_again_across_releases(rt: Runtime, sql: Sql) -> None:
    """What a key stands for is kept for as long as its email: a new field must not change it."""
    write_email(rt, "order-1")
    canonical = (
        '{"account":null,"data":{},"from":null,"not_after":null,"on_ambiguous":null,"priority":5,'
        '"reply_to":[],"send_at":null,"template":"welcome-v1","to":["ada@example.com"]}'
    )
    kept = sql.one("SELECT intent_hash FROM mail_service.email_outbox")
    assert kept == hmac.digest(rt.address_key, canonical.encode(), "sha256")


def test_every_bad_field_is_named_at_once(rt: Runtime) -> None:
    with pytest.raises(InvalidFields) as refused:
        submit.submit_email(
            rt,
            EmailRequest(dedup_key="a@b", template="nothing-v1", to=("x",), sender="y@z.example"),
            actor="test",
        )
    assert set(refused.value.fields) == {"dedup_key", "template", "to.0", "from"}


def test_an_email_to_an_account_goes_to_its_address(rt: Runtime, sql: Sql) -> None:
    account_id = sign_up(rt, "ada@example.com").email.account_id
    asked = EmailRequest(dedup_key="receipt-1", template="welcome-v1", account_id=account_id)
    made = rt.db.transact(submit.submit_email(rt, asked, actor="test"))
    assert [r.address for r in made.email.recipients] == ["ada@example.com"]


def test_reserved_domains_are_refused_in_production_only(
    runtime_of: Callable[..., Runtime],
) -> None:
    assert write_email(runtime_of(APP_ENV="development"), to=("ada@shop.test",))
    with pytest.raises(InvalidFields) as refused:
        write_email(runtime_of(APP_ENV="production"), "order-2", to=("ada@shop.test",))
    assert "to.0" in refused.value.fields


def _answer(rt: Runtime, key: str, body: bytes, address: str) -> Answer:
    write = registration.open_account(rt, AccountRequest(email=address), actor="test")
    asked = Key(api_key_id=_KEY, route="POST /v1/accounts", key=key, body=body)
    return idempotency.answer(rt, asked, write, _present)


def _present(opened: Opened) -> Answer:
    return Answer(status=201, text=str(opened.account.id))


@pytest.fixture
def _api_key(rt: Runtime) -> None:
    global _KEY
    from mail_service.workflows import operate

    _KEY = operate.create_key(rt.db, key_id=rt.new_id(), name="test", scopes=("send",)).id


_KEY: Any = None


@pytest.mark.usefixtures("_api_key")
def test_an_idempotency_key_gives_the_stored_answer(rt: Runtime, sql: Sql) -> None:
    first = _answer(rt, "k", b"body", "ada@example.com")
    again = _answer(rt, "k", b"body", "ada@example.com")
    assert (again.text, again.replayed, first.replayed) == (first.text, True, False)
    assert sql.one("SELECT count(*) FROM mail_service.accounts") == 1


@pytest.mark.usefixtures("_api_key")
def test_an_idempotency_key_with_another_body_is_refused(rt: Runtime, sql: Sql) -> None:
    _answer(rt, "k", b"body", "ada@example.com")
    with pytest.raises(InvalidFields):
        _answer(rt, "k", b"other", "bob@example.com")
    assert sql.one("SELECT count(*) FROM mail_service.accounts") == 1


@pytest.mark.usefixtures("_api_key")
def test_a_twin_in_flight_is_a_conflict_and_a_refusal_is_never_stored(
    rt: Runtime, sql: Sql
) -> None:
    write = registration.open_account(rt, AccountRequest(email="ada@example.com"), actor="test")
    asked = Key(api_key_id=_KEY, route="POST /v1/accounts", key="k", body=b"body")

    def twin(tx: Tx) -> Opened:
        with pytest.raises(Conflict):
            _answer(rt, "k", b"body", "ada@example.com")
        return write(tx)

    assert idempotency.answer(rt, asked, twin, _present).status == 201
    with pytest.raises(Conflict):
        _answer(rt, "other", b"body", "ada@example.com")
    assert sql.one("SELECT count(*) FROM mail_service.idempotent_answers") == 1


@pytest.mark.usefixtures("_api_key")
def test_after_a_day_the_key_may_be_used_anew(rt: Runtime, sql: Sql) -> None:
    _answer(rt, "k", b"body", "ada@example.com")
    sql.advance(25 * 3600)
    assert not _answer(rt, "k", b"other", "bob@example.com").replayed


def test_the_store_gives_none_for_an_account_that_is_not_there(rt: Runtime) -> None:
    with rt.db.transaction() as tx:
        assert accounts.by_id(tx, rt.new_id()) is None
