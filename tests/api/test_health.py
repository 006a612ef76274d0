"""Health, metrics behind a token, and what the API says when something of ours is broken."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import pytest
import structlog

from mail_service import logs
from mail_service.runtime import Runtime
from mail_service.workflows import observe
from tests.api.conftest import ACCOUNT, NOBODY, Api
from tests.conftest import Sql


def test_a_live_process_says_so_even_without_a_database(
    api_of: Callable[[Runtime], Api], gone: Runtime
):
    assert api_of(gone).get("/healthz", key=None).status_code == 200


def test_readiness_tells_the_schema_and_the_age_of_the_last_sweep(api: Api, sql: Sql):
    assert api.get("/readyz").json["last_sweep_seconds"] is None
    sql("INSERT INTO mail_service.heartbeats VALUES ('sweep', mail_service.clock())")
    sql.advance(3600)
    answer = api.get("/readyz")
    assert answer.status_code == 200
    assert answer.json["last_sweep_seconds"] >= 3600
    assert answer.json["schema_version"] == answer.json["schema_needed"]


@pytest.mark.parametrize("version", ["0000", None])
def test_a_schema_that_does_not_fit_is_not_ready(api: Api, sql: Sql, version: str | None):
    (standing,) = sql("SELECT version_num FROM mail_service.schema_version")
    sql("DELETE FROM mail_service.schema_version")
    try:
        if version is not None:
            sql("INSERT INTO mail_service.schema_version VALUES (%s)", version)
        answer = api.get("/readyz")
    finally:
        sql("DELETE FROM mail_service.schema_version")
        sql("INSERT INTO mail_service.schema_version VALUES (%s)", standing["version_num"])
    assert answer.status_code == 503
    assert "retry-after" in answer.headers


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/readyz"), ("GET", "/metrics"), ("GET", "/v1/stats"), ("GET", f"/v1/emails/{NOBODY}"),
     ("POST", "/v1/accounts"), ("POST", "/v1/emails"), ("POST", "/v1/suppressions")],
)  # fmt: skip
def test_without_a_database_the_answer_is_503_soon_and_tells_when_to_try_again(
    api_of: Callable[[Runtime], Api], gone: Runtime, method: str, path: str
):
    answer = api_of(gone)(method, path, ACCOUNT if method == "POST" else None)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) > 0
    assert "database-secret" not in answer.text


def test_metrics_ask_for_their_token_where_one_is_set(runtime_of, api_of):
    api = api_of(runtime_of(METRICS_TOKEN="metrics-t\N{LATIN SMALL LETTER O WITH DIAERESIS}ken"))
    token = "metrics-t\N{LATIN SMALL LETTER O WITH DIAERESIS}ken".encode().decode("latin-1")
    assert api.get("/metrics", key=None).status_code == 401
    assert api.get("/metrics").status_code == 401
    assert api.get("/metrics", key="metrics-t").status_code == 401
    assert api.get("/metrics", key="\xff").status_code == 401
    answer = api.get("/metrics", key=token)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/hold", "/v1/emails/batch/x", "/console", "/docs/x"]
)
def test_an_address_with_nothing_at_it_is_not_found(standing: Api, path: str):
    answer = standing.get(path, key=None)
    assert answer.status_code == 404
    assert answer.json == {
        "type": "/docs#not-found",
        "title": "There is no such thing",
        "status": 404,
        "detail": "there is nothing at this address",
    }


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/emails", {"GET", "HEAD", "POST", "OPTIONS"}),
        ("GET", "/v1/accounts", {"POST", "OPTIONS"}),
        ("PUT", f"/v1/accounts/{NOBODY}", {"GET", "HEAD", "DELETE", "OPTIONS"}),
        ("GET", "/webhooks/ses/sns", {"POST", "OPTIONS"}),
        ("POST", "/docs", {"GET", "HEAD", "OPTIONS"}),
    ],
)
def test_a_method_that_is_not_known_is_answered_with_those_that_are(
    standing: Api, method: str, path: str, allowed: set[str]
):
    answer = standing(method, path, key=None)
    assert answer.status_code == 405
    assert {part.strip() for part in answer.headers["allow"].split(",")} == allowed


def test_no_answer_may_be_stored_or_taken_for_another_type(standing: Api):
    for path in ("/v1/emails", "/nothing", "/docs"):
        answer = standing.get(path)
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"


@contextmanager
def log_lines() -> Iterator[list[dict[str, Any]]]:
    """Log as the processes do; the list holds the lines when the block has ended."""
    root = logging.getLogger()
    handlers, level, out = list(root.handlers), root.level, io.StringIO()
    lines: list[dict[str, Any]] = []
    structlog.reset_defaults()
    with redirect_stdout(out):
        logs.configure("INFO", process="test")
    try:
        yield lines
    finally:
        lines += [json.loads(line) for line in out.getvalue().splitlines()]
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.reset_defaults()


def test_an_unexpected_fault_tells_the_caller_nothing_and_the_log_no_values(
    standing: Api, monkeypatch: pytest.MonkeyPatch
):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("row of ada@example.com")

    monkeypatch.setattr(observe, "list_emails", fail)
    with log_lines() as lines:
        answer = standing.get("/v1/emails", params={"recipient": "ada@example.com"})
    assert answer.status_code == 500
    assert answer.json["detail"] == "the fault is ours and was recorded"
    assert [line["alarm"] for line in lines if line["event"] == "alarm"] == ["request_failed"]
    assert lines[-1]["route"] == "/v1/emails"
    assert lines[-1]["error"] == "RuntimeError"
    assert "ada" not in json.dumps(lines)
