"""Sign-ups: one account, one email, one answer per Idempotency-Key."""

import json
from threading import Thread
from typing import Any

import psycopg
import pytest
from falcon import testing

from mail_service.domain.address import keyed_hash
from tests.api.conftest import ACCOUNT, NOBODY, Api, key_of
from tests.conftest import Sql


def test_a_sign_up_writes_the_account_and_its_email_and_answers_both(api: Api, sql: Sql):
    answer = api.post("/v1/accounts", {"email": " Ada@EXAMPLE.com ", "name": "Ada"})
    assert answer.status_code == 201
    account, email = answer.json["account"], answer.json["email"]
    assert set(account) == {"id", "email", "name", "created_at"}
    assert (account["email"], account["name"]) == ("Ada@example.com", "Ada")
    assert email["dedup_key"] == f"welcome:{account['id']}:v1"
    assert (email["state"], email["account_id"]) == ("pending", account["id"])
    assert [(r["address"], r["status"]) for r in email["recipients"]] == [
        ("Ada@example.com", "waiting")
    ]
    assert api.get(f"/v1/accounts/{account['id']}").json == account
    assert api.get(f"/v1/emails/{email['id']}").json == email
    assert sql.one("SELECT count(*) FROM mail_service.email_outbox") == 1
    assert len(api.nudges) == 1


def test_times_are_utc_and_end_in_z(api: Api):
    answer = api.post("/v1/accounts", ACCOUNT)
    assert answer.json["account"]["created_at"].endswith("Z")
    assert answer.json["email"]["next_attempt_at"].endswith("Z")


def test_a_second_sign_up_of_an_address_is_a_conflict_and_wakes_nobody(api: Api, sql: Sql):
    api.post("/v1/accounts", ACCOUNT)
    answer = api.post("/v1/accounts", ACCOUNT | {"email": "ADA@example.com"})
    assert answer.status_code == 409
    assert "idempotency-replayed" not in answer.headers
    assert sql.one("SELECT count(*) FROM mail_service.accounts") == 1
    assert len(api.nudges) == 1


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({}, {"email"}),
        ({"email": None}, {"email"}),
        ({"email": "nobody"}, {"email"}),
        ({"email": "Ada <ada@example.com>"}, {"email"}),
        ({"email": "ada@example.com\r\nBcc: eve@example.com"}, {"email"}),
        ({"email": "ada@example.com", "name": ""}, {"name"}),
        ({"email": "ada@example.com", "name": "a\nb"}, {"name"}),
        ({"email": "ada@example.com", "name": "x" * 201}, {"name"}),
        ({"email": "ada@example.com", "scopes": ["operate"]}, {"scopes"}),
        ({"email": "nobody", "name": ""}, {"email", "name"}),
    ],
)
def test_an_unusable_sign_up_names_each_field(standing: Api, body: dict[str, str], named: set[str]):
    answer = standing.post("/v1/accounts", body)
    assert answer.status_code == 422
    assert set(answer.json["errors"]) == named


@pytest.mark.parametrize(
    "account_id",
    [NOBODY, "1", "nonsense", f"{{{NOBODY}}}", NOBODY.replace("-", ""), "%00", "..%2f"],
)
def test_an_account_that_is_not_there_is_not_found_whatever_its_id_looks_like(
    standing: Api, account_id: str
):
    answer = standing.get(f"/v1/accounts/{account_id}")
    assert answer.status_code == 404
    assert answer.json["detail"] in {"there is no such account", "there is nothing at this address"}


def keyed(api: Api, idempotency_key: str, body: object = ACCOUNT, **more: Any) -> testing.Result:
    return api.post("/v1/accounts", body, headers={"Idempotency-Key": idempotency_key}, **more)


def test_the_same_key_and_body_give_the_stored_answer_without_another_effect(api: Api, sql: Sql):
    first, again = keyed(api, "k1"), keyed(api, "k1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert sql.one("SELECT count(*) FROM mail_service.email_outbox") == 1
    assert len(api.nudges) == 1


def test_the_stored_answer_stays_what_it_was_when_the_email_moved_on(api: Api, sql: Sql):
    first = keyed(api, "k1")
    sql("UPDATE mail_service.accounts SET name = 'Countess'")
    assert keyed(api, "k1").content == first.content


@pytest.mark.parametrize(
    "other",
    [
        json.dumps(ACCOUNT | {"name": "Eve"}).encode(),
        json.dumps(ACCOUNT).encode() + b" ",
        json.dumps(ACCOUNT | {"email": "eve@example.com"}).encode(),
    ],
)
def test_the_same_key_with_other_bytes_is_refused_and_tells_nothing_of_the_first(
    api: Api, sql: Sql, other: bytes
):
    keyed(api, "k1")
    answer = keyed(api, "k1", other)
    assert answer.status_code == 422
    assert set(answer.json["errors"]) == {"Idempotency-Key"}
    assert "ada@example.com" not in answer.text
    assert sql.one("SELECT count(*) FROM mail_service.accounts") == 1


def test_another_callers_key_is_another_key(api: Api):
    assert keyed(api, "k1").status_code == 201
    other = key_of(api.rt, "send")
    assert keyed(api, "k1", ACCOUNT | {"email": "eve@example.com"}, key=other).status_code == 201


def test_an_answer_without_effect_is_not_stored(api: Api, sql: Sql):
    api.post("/v1/accounts", ACCOUNT)
    assert keyed(api, "k1").status_code == 409
    assert keyed(api, "k1", {"email": "nobody"}).status_code == 422
    assert sql.one("SELECT count(*) FROM mail_service.idempotent_answers") == 0
    assert keyed(api, "k1", {"email": "eve@example.com"}).status_code == 201


def test_a_key_is_forgotten_after_a_day(api: Api, sql: Sql):
    keyed(api, "k1")
    sql.advance(24 * 3600 + 1)
    assert keyed(api, "k1").status_code == 409


def test_a_twin_in_flight_is_a_conflict_and_its_lock_dies_with_it(
    api: Api, database_url: str, sql: Sql
):
    # A third party holds the address, so the first request stops between its lock and its answer.
    answers: list[testing.Result] = []
    with psycopg.connect(database_url) as blocker:
        hashed = keyed_hash(api.rt.address_key, str(ACCOUNT["email"]))
        blocker.execute(
            "INSERT INTO mail_service.accounts (id, email, address_hash) VALUES (%s, 'x', %s)",
            (NOBODY, hashed),
        )
        first = Thread(target=lambda: answers.append(keyed(api, "k1")))
        first.start()
        wait_until(sql, "SELECT count(*) FROM pg_locks WHERE NOT granted", 1)
        assert keyed(api, "k1").status_code == 409
        blocker.rollback()
    first.join()
    assert [answer.status_code for answer in answers] == [201]
    assert keyed(api, "k1").headers["idempotency-replayed"] == "true"


def wait_until(sql: Sql, query: str, wanted: int) -> None:
    """Look until the database shows it; the test's own time limit ends this."""
    while sql.one(query) < wanted:
        pass


def test_the_same_key_from_many_threads_at_once_has_one_effect(api: Api, sql: Sql):
    answers: list[testing.Result] = []
    threads = [Thread(target=lambda: answers.append(keyed(api, "k1"))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert len({answer.content for answer in answers if answer.status_code == 201}) == 1
    assert sql.one("SELECT count(*) FROM mail_service.email_outbox") == 1


@pytest.mark.parametrize("key", ["", "x" * 201, "\xe9", "tab\there"])
def test_an_idempotency_key_is_printable_ascii(standing: Api, key: str):
    answer = keyed(standing, key)
    assert answer.status_code == 422
    assert set(answer.json["errors"]) == {"Idempotency-Key"}


@pytest.mark.parametrize(
    "table", ["email_outbox", "email_payloads", "email_recipients", "email_transitions"]
)
def test_a_sign_up_of_which_one_row_is_refused_leaves_none(api: Api, sql: Sql, table: str):
    sql(f"ALTER TABLE mail_service.{table} ADD CONSTRAINT refuse_all CHECK (false)")
    try:
        assert api.post("/v1/accounts", ACCOUNT).status_code == 500
    finally:
        sql(f"ALTER TABLE mail_service.{table} DROP CONSTRAINT refuse_all")
    assert sql.one("SELECT count(*) FROM mail_service.accounts") == 0
    assert sql.one("SELECT count(*) FROM mail_service.email_outbox") == 0
    assert api.nudges == []


def test_the_person_of_an_account_is_forgotten_and_may_sign_up_anew(api: Api):
    account = api.post("/v1/accounts", ACCOUNT).json["account"]
    answer = api("DELETE", f"/v1/accounts/{account['id']}")
    assert answer.status_code == 200
    done = answer.json
    assert (done["accounts"], done["emails"], done["cancelled"]) == (1, 1, 1)
    shown = api.get(f"/v1/accounts/{account['id']}").json
    assert (shown["email"], shown["name"]) == (None, None)
    assert api("DELETE", f"/v1/accounts/{account['id']}").json["accounts"] == 0
    assert api.post("/v1/accounts", ACCOUNT).status_code == 201
