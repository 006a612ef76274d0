"""Keys that open nothing, and the odd ways to present one."""

import threading

import pytest

from mail_service.runtime import Runtime
from mail_service.workflows import operate
from tests.api.conftest import Api, key_of
from tests.conftest import Sql


@pytest.mark.parametrize(
    "spoil",
    [
        lambda key: key.upper(),
        lambda key: key[:-1],
        lambda key: key + "x",
        lambda key: key.rpartition("_")[0],
        lambda key: key.split("_")[1],
        lambda key: "ms_unknown0unknown0_" + key.split("_", 2)[2],
        lambda key: "",
        lambda key: f"{key} {key}",
        lambda key: f"{key}, Bearer {key}",
        lambda key: f'"{key}"',
        lambda key: f"{key}\N{LATIN SMALL LETTER E WITH ACUTE}",
        lambda key: "\xff" * 40,
        lambda key: "a" * 5000,
        lambda key: "ms__",
        lambda key: "ms_a_b",
    ],
)
def test_whatever_is_not_exactly_a_key_opens_nothing(standing: Api, spoil):
    answer = standing.get("/v1/stats", key=spoil(standing.key))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer error="invalid_token"'


@pytest.mark.parametrize("scheme", ["Basic", "Token", "Bearer:", "Bearerx", ""])
def test_another_scheme_opens_nothing(standing: Api, scheme: str):
    header = f"{scheme} {standing.key}".strip()
    assert standing.get("/v1/stats", headers={"Authorization": header}).status_code == 401


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER   "])
def test_the_scheme_is_read_as_http_says(standing: Api, scheme: str):
    answer = standing.get("/v1/stats", headers={"Authorization": scheme + str(standing.key)})
    assert answer.status_code == 200


def test_a_header_sent_twice_opens_nothing(standing: Api):
    twice = [("Authorization", f"Bearer {standing.key}")] * 2
    assert standing.client.simulate_get("/v1/stats", headers=twice).status_code == 401


@pytest.mark.parametrize("name", ["key", "api_key", "access_token", "Token"])
def test_a_key_in_the_address_is_refused_even_beside_a_good_header(standing: Api, name: str):
    answer = standing.get("/v1/emails", params={name: standing.key})
    assert answer.status_code == 401
    assert "never in an address" in answer.json["detail"]
    assert standing.get("/v1/emails", params={name: standing.key}, key=None).status_code == 401


def test_a_revoked_key_opens_nothing_once_the_revocation_returns_however_busy_it_is(
    rt: Runtime, api: Api
):
    key = key_of(rt, "read")
    over = threading.Event()
    answers: list[int] = []

    def be_busy() -> None:
        while not over.is_set():
            answers.append(api.get("/v1/stats", key=key).status_code)

    busy = threading.Thread(target=be_busy)
    busy.start()
    try:
        while not answers:
            over.wait(0.001)
        for listed in operate.list_keys(rt.db):
            operate.revoke_key(rt.db, listed.id)
        afterwards = api.get("/v1/stats", key=key).status_code
    finally:
        over.set()
        busy.join()
    assert (answers[0], afterwards, answers[-1]) == (200, 401, 401)


def test_a_key_that_opened_nothing_is_not_remembered_as_such(rt: Runtime, api: Api, sql: Sql):
    key = key_of(rt, "read")
    sql("UPDATE mail_service.api_keys SET revoked_at = now()")
    assert api.get("/v1/stats", key=key).status_code == 401
    sql("UPDATE mail_service.api_keys SET revoked_at = NULL")
    assert api.get("/v1/stats", key=key).status_code == 200


def test_a_key_that_is_remembered_opens_no_more_than_its_own_scopes(rt: Runtime, api: Api):
    reader, sender = key_of(rt, "read"), key_of(rt, "send")
    for _ in range(2):
        assert api.get("/v1/stats", key=reader).status_code == 200
        assert api.get("/v1/stats", key=sender).status_code == 403
        assert api.get("/v1/stats", key=reader[:-1]).status_code == 401


def test_a_request_without_a_key_learns_nothing_of_its_body(standing: Api):
    before = standing.count("accounts")
    answer = standing.post("/v1/accounts", b"{" * 100, key=None)
    assert answer.status_code == 401
    assert standing.count("accounts") == before


def test_an_id_of_the_wrong_form_still_asks_for_a_key_first(standing: Api):
    assert standing.get("/v1/emails/nonsense", key=None).status_code == 401
