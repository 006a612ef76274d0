"""Batches: what each email comes to, in order and in one transaction, as if they had come one by one."""

import json
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import psycopg
import pytest
from falcon import testing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from psycopg.rows import TupleRow

from mail_service.runtime import Runtime
from mail_service.store.database import Tx
from mail_service.store.pool import Database
from mail_service.workflows import submit
from mail_service.workflows.submit import EmailRequest
from tests.api.conftest import ACCOUNT, EMAIL, NOBODY, Api, key_of
from tests.chaos.test_lost_answers import Forgetful
from tests.conftest import Sql

BATCH = "/v1/emails/batch"
COUNT = "SELECT count(*) FROM mail_service.email_outbox"


def numbered(*numbers: int, **more: Any) -> list[dict[str, Any]]:
    return [EMAIL | {"dedup_key": f"order-{n}"} | more for n in numbers]


def post(api: Api, emails: Any, key: str | None = None) -> testing.Result:
    headers = {"Idempotency-Key": key} if key else None
    return api.post(BATCH, {"emails": emails}, headers=headers)


def statuses(answer: testing.Result) -> list[int]:
    assert answer.status_code == 200
    return [item["status"] for item in answer.json["items"]]


def test_each_email_is_written_and_answered_in_its_place(api: Api, sql: Sql):
    answer = post(api, numbered(3, 1, 2))
    assert statuses(answer) == [201, 201, 201]
    shown = [item["email"] for item in answer.json["items"]]
    assert [email["dedup_key"] for email in shown] == ["order-3", "order-1", "order-2"]
    assert shown == [api.get(f"/v1/emails/{email['id']}").json for email in shown]
    for table in ("email_outbox", "email_payloads", "email_recipients", "email_transitions"):
        assert sql.one(f"SELECT count(*) FROM mail_service.{table}") == 3
    assert len(api.nudges) == 1


def test_an_email_may_be_as_deep_as_one_that_comes_alone(api: Api):
    deep: Any = "end"
    for _ in range(30):  # with the email and its data, all of the 32 levels of a body
        deep = [deep]
    assert api.post("/v1/emails", *numbered(1, data={"deep": deep})).status_code == 201
    assert api.post("/v1/emails", *numbered(2, data={"deep": [deep]})).status_code == 400
    assert statuses(post(api, numbered(3, 4, data={"deep": deep}))) == [201, 201]


def test_a_refused_email_keeps_back_no_other_and_is_told_what_it_would_be_told_alone(
    api: Api, sql: Sql
):
    post(api, numbered(1))
    emails: list[Any] = [
        *numbered(1),
        *numbered(1, to=["eve@example.com"]),
        *numbered(2, to=["nobody"]),
        *numbered(3, colour="red"),
        *numbered(4, account_id=NOBODY, to=None),
        *numbered(5, not_after="2000-01-01T00:00:00Z"),
        *numbered(6, data={"a": ["\0"]}),
        *numbered(7, data={"\udfff": 1}),
        "text",
        None,
        [],
        {},
        *numbered(8),
    ]
    answer = post(api, emails)
    assert statuses(answer) == [200, 409, *[422] * 10, 201]
    items = answer.json["items"]
    assert [set(item["error"]["errors"]) for item in items[2:12]] == [
        {"to.0"}, {"colour"}, {"account_id"}, {"not_after"}, {"data.a.0"}, {"data.*"},
        {"body"}, {"body"}, {"body"}, {"dedup_key", "template"},
    ]  # fmt: skip
    for email, item in zip(emails[1:12], items[1:12], strict=True):
        alone = api.post("/v1/emails", json.dumps(email).encode())
        assert (alone.status_code, alone.json) == (item["status"], item["error"])
    assert sql.one(COUNT) == 2
    assert "eve@example.com" not in answer.text


def test_a_key_that_repeats_in_a_batch_is_met_like_one_that_stood_before(api: Api, sql: Sql):
    answer = post(api, [*numbered(1), *numbered(1), *numbered(1, priority=9), *numbered(2)])
    assert statuses(answer) == [201, 200, 409, 201]
    first, again, *_ = answer.json["items"]
    assert again["email"] == first["email"]
    assert statuses(post(api, numbered(2, 1))) == [200, 200]
    assert sql.one(COUNT) == 2
    assert len(api.nudges) == 1


def test_a_refused_email_does_not_take_its_key(api: Api):
    assert statuses(post(api, [*numbered(1, to=["nobody"]), *numbered(1)])) == [422, 201]


def test_emails_of_a_batch_may_go_to_accounts(api: Api):
    account = api.post("/v1/accounts", ACCOUNT).json["account"]["id"]
    emails = numbered(1, 2, to=None, account_id=account) + numbered(3, to=None, account_id=NOBODY)
    answer = post(api, emails)
    assert statuses(answer) == [201, 201, 422]
    for item in answer.json["items"][:2]:
        assert [r["address"] for r in item["email"]["recipients"]] == ["ada@example.com"]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, {"emails"}),
        ({"emails": None}, {"emails"}),
        ({"emails": {}}, {"emails"}),
        ({"emails": "text"}, {"emails"}),
        ({"emails": [{}] * 501}, {"emails"}),
        ({"emails": [], "colour": "red"}, {"colour"}),
        ({"emails": [], "a\0": 1}, {"*"}),
        ({"emails": [], "\udfff": 1}, {"*"}),
        ([EMAIL], {"body"}),
    ],
)
def test_an_envelope_that_is_none_is_refused_whole(standing: Api, body: Any, named: set[str]):
    before = standing.count("email_outbox")
    answer = standing.post(BATCH, json.dumps(body).encode())
    assert answer.status_code == 422
    assert set(answer.json["errors"]) == named
    assert standing.count("email_outbox") == before


def test_a_batch_of_none_writes_nothing_and_wakes_nobody(api: Api):
    assert post(api, []).json == {"items": []}
    assert api.nudges == []


def test_a_body_that_is_broken_or_too_large_is_refused_whole(standing: Api):
    assert standing.post(BATCH, b'{"emails": [{"to": 1, "to": 2}]}').status_code == 400
    assert standing.post(BATCH, b'{"emails": [').status_code == 400
    assert standing.post(BATCH, b" " * (1024 * 1024 + 1)).status_code == 413


def test_the_same_key_and_body_give_the_stored_answer_byte_for_byte(api: Api, sql: Sql):
    emails = [*numbered(1), *numbered(2, to=["nobody"]), *numbered(1, priority=9)]
    first = post(api, emails, key="k")
    sql("UPDATE mail_service.email_outbox SET policy_note = 'moved on'")
    again = post(api, emails, key="k")
    assert (again.status_code, again.content) == (200, first.content)
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert len(api.nudges) == 1
    other = post(api, numbered(1), key="k")
    assert (other.status_code, set(other.json["errors"])) == (422, {"Idempotency-Key"})


def test_a_key_at_one_route_is_another_key_at_the_other(api: Api):
    headers = {"Idempotency-Key": "k"}
    assert api.post("/v1/accounts", ACCOUNT, headers=headers).status_code == 201
    assert statuses(post(api, numbered(1), key="k")) == [201]


def asked(*numbers: int) -> list[EmailRequest]:
    return [
        EmailRequest(dedup_key=f"order-{n}", template="welcome-v1", to=("ada@example.com",))
        for n in numbers
    ]


def test_a_batch_that_fails_before_its_commit_leaves_nothing(rt: Runtime, sql: Sql):
    write = submit.submit_emails(rt, asked(1, 2), actor="test")

    def crash(tx: Tx) -> None:
        assert len(write(tx)) == 2
        raise RuntimeError("the process died before the commit")

    before = sql.dump()
    with pytest.raises(RuntimeError, match="died"):
        rt.db.transact(crash)
    assert sql.dump() == before


def test_a_batch_whose_commit_answer_was_lost_is_answered_as_it_was_written(
    api_of: Callable[[Runtime], Api], rt: Runtime, sql: Sql
):
    post(api_of(rt), numbered(2))
    forgetful = replace(rt, db=Forgetful(rt))
    write = submit.submit_emails(forgetful, [*asked(1), *asked(2), *asked(1)], actor="test")
    done = forgetful.db.transact(write, found=write.found)
    assert [isinstance(one, submit.Submitted) and one.created for one in done] == [
        True,
        False,
        False,
    ]
    assert sql.one(COUNT) == 2


class Counted(Database):
    """The product's own connections, with every statement counted."""

    statements: ClassVar[list[str]] = []

    @contextmanager
    def connected(self) -> Generator[psycopg.Connection[TupleRow]]:
        with super().connected() as connection:
            connection.cursor_factory = Counting
            yield connection


class Counting(psycopg.Cursor[Any]):
    def execute(self, query: Any, params: Any = None, **options: Any) -> Any:
        Counted.statements.append(query)
        return super().execute(query, params, **options)


@pytest.fixture
def counted(rt: Runtime, database_url: str) -> Iterator[Api]:
    """The API on connections that count."""
    db = Counted(database_url, name="counted", size=4)
    db.open()
    yield Api(replace(rt, db=db), key_of(rt))
    db.close()


def test_a_full_batch_takes_as_many_statements_as_a_small_one(counted: Api, sql: Sql):
    account_id = counted.post("/v1/accounts", ACCOUNT).json["account"]["id"]
    taken: list[int] = []
    for numbers in (list(range(2)), list(range(10, 510))):
        some = numbers[: len(numbers) // 2]
        post(counted, numbered(*some))
        Counted.statements.clear()
        fresh = numbered(*numbers[len(some) :], to=None, account_id=account_id)
        timed = [email | {"not_after": "2100-01-01T00:00:00Z"} for email in fresh]
        answer = post(counted, [*timed, *numbered(*some)], key=f"batch {len(numbers)}")
        assert statuses(answer) == [201] * len(timed) + [200] * len(some)
        taken.append(len([text for text in Counted.statements if "api_keys" not in text]))
    assert taken[0] == taken[1] <= 12
    assert sql.one(COUNT) == 503


def test_batches_with_the_same_keys_in_other_orders_never_stop_each_other(counted: Api, sql: Sql):
    Counted.statements.clear()
    with ThreadPoolExecutor(4) as pool:
        for round_ in range(6):
            numbers = [round_ * 100 + n for n in range(60)]
            orders = [numbers, numbers[::-1], numbers[30:] + numbers[:30], numbers[::-2]]
            answers = list(pool.map(lambda order: post(counted, numbered(*order)), orders))
            assert {status for answer in answers for status in statuses(answer)} <= {200, 201}
            assert sum(statuses(answer).count(201) for answer in answers) == len(numbers)
    written = [text for text in Counted.statements if "INTO mail_service.email_outbox" in text]
    assert len(written) == 6 * 4  # none was ended by a deadlock and done again
    assert sql.one(COUNT) == 6 * 60


KEYS = st.sampled_from(["a", "b", "c", "ada@example.com"])
SOUND = st.fixed_dictionaries(
    {
        "dedup_key": st.sampled_from(["a", "b"]),
        "template": st.just("welcome-v1"),
        "to": st.sampled_from([["ada@example.com"], ["eve@example.com"]]),
    }
)
ITEMS = st.one_of(
    SOUND,
    st.fixed_dictionaries(
        {"dedup_key": KEYS, "template": st.sampled_from(["welcome-v1", "welcome-v1", "none-v1"])},
        optional={
            "to": st.sampled_from(
                [["ada@example.com"], ["eve@example.com", "b@example.com"], ["x"], []]
            ),
            "data": st.sampled_from([{"name": "Ada"}, {"name": 1}, {"x": "\0"}, {}]),
            "priority": st.sampled_from([1, 5, 11, "5"]),
            "send_at": st.sampled_from(["2100-01-01T00:00:00Z", "2031-01-01T00:00:00Z", "soon"]),
            "not_after": st.sampled_from(["2000-01-01T00:00:00Z", "2090-01-01T00:00:00Z"]),
            "account_id": st.sampled_from([NOBODY, "x"]),
            "colour": st.just("red"),
        },
    ),
    st.sampled_from([None, 1, "text", []]),
)
VARYING = {"id", "created_at", "next_attempt_at"}


def told(status: int, content: Any) -> Any:
    """Give an answer without ids and times."""
    return status, {k: v for k, v in content.items() if k not in VARYING}


@settings(
    deadline=None,
    max_examples=40,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.lists(ITEMS, max_size=6), min_size=1, max_size=3))
def test_a_batch_comes_to_what_its_emails_come_to_one_by_one(
    api: Api, sql: Sql, batches: list[list[Any]]
):
    look = (
        "SELECT o.dedup_key, o.intent_hash, o.state, o.priority, o.account_id, p.data,"
        " (SELECT array_agg(r.address ORDER BY r.position) FROM mail_service.email_recipients r"
        "  WHERE r.email_id = o.id) FROM mail_service.email_outbox o"
        " JOIN mail_service.email_payloads p ON p.email_id = o.id ORDER BY 1"
    )
    come: list[Any] = []
    for batched in (True, False):
        sql("TRUNCATE mail_service.email_outbox CASCADE")
        answers: list[Any] = []
        for emails in batches:
            if batched:
                for item in post(api, emails).json["items"]:
                    answers.append(told(item["status"], item.get("email") or item["error"]))
            else:
                for email in emails:
                    alone = api.post("/v1/emails", json.dumps(email).encode())
                    answers.append(told(alone.status_code, alone.json))
        come.append((answers, sql(look)))
    assert come[0] == come[1]
