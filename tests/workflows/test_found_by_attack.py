"""What an attack from outside found: each is a test of its whole kind."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from falcon import testing
from pydantic import BaseModel

from api import bodies, models
from mail_service.errors import InvalidFields, Unavailable
from mail_service.gateways.ses import ses_client
from mail_service.gateways.ses_suppressions import SesSuppressionList
from mail_service.sandbox import Sandbox, Signer
from tests.conftest import ENVIRONMENT

COMMAND = str(Path(sys.executable).parent / "mail-service")
QUERIES: tuple[type[BaseModel], ...] = (
    models.EmailQuery,
    models.EventQuery,
    models.SuppressionQuery,
)
BODIES: tuple[type[BaseModel], ...] = (
    models.NewAccount,
    models.NewEmail,
    models.Resolution,
    models.Requeue,
    models.Reason,
    models.NewSuppression,
    models.Release,
)
ODD: tuple[Any, ...] = (["true", "true"], [], {}, {"true": "true"}, [[]], [None], 1.5, 1e300, True)


def fields_of(*given: type[BaseModel]) -> list[Any]:
    return [
        pytest.param(model, field.alias or name, id=f"{model.__name__}-{name}")
        for model in given
        for name, field in model.model_fields.items()
    ]


@pytest.mark.parametrize(("model", "name"), fields_of(*QUERIES))
def test_a_query_parameter_that_stands_twice_is_named(model: type[BaseModel], name: str) -> None:
    for value in ("true", "1", "2026-07-29T12:00:00Z", "bounce"):
        request = testing.create_req(query_string=f"{name}={value}&{name}={value}")
        with pytest.raises(InvalidFields) as refused:
            bodies.query(model, request)
        assert set(refused.value.fields) == {name}


@pytest.mark.parametrize("odd", ODD, ids=repr)
@pytest.mark.parametrize(("model", "name"), fields_of(*BODIES))
def test_a_field_of_another_type_is_named(model: type[BaseModel], name: str, odd: Any) -> None:
    # Other fields are missing, so the body is refused in any case; a fault of ours would be no refusal.
    with pytest.raises(InvalidFields):
        bodies.parse(model, json.dumps({name: odd, "no such field": 1}).encode())


@pytest.fixture
def ses() -> Iterator[Sandbox]:
    with Sandbox(signer=Signer.generate()) as sandbox:
        yield sandbox


def test_a_sync_says_that_ses_was_not_told_also_while_the_change_waits_to_be_tried_again(
    database_url: str, ses: Sandbox
) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, "suppressions", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            env={"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
            | ENVIRONMENT
            | {"DATABASE_URL": database_url, "SES_ENDPOINT_URL": ses.url},
        )

    ses.knobs(operations={"PutSuppressedDestination": "denied"})
    assert run("add", "ada@example.com").returncode == 0
    for _ in range(2):
        told = run("sync", "--json")
        assert told.returncode == 1
        assert "ses:PutSuppressedDestination" in json.loads(told.stdout)["problem"]


@pytest.fixture
def page_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Gives what is read of a list that answers 200 with this body."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    said: list[bytes] = []

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(said[-1])))
            self.end_headers()
            self.wfile.write(said[-1])

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = ses_client("eu-west-1", f"http://127.0.0.1:{server.server_port}", 20, 20, 1)

        def read(body: bytes) -> object:
            said.append(body)
            return SesSuppressionList(lambda: client).page(None, None)

        yield read
        client.close()
        server.shutdown()


@pytest.mark.parametrize(
    "body",
    [
        b"<html>ok</html>",
        b"",
        b"null",
        b"[]",
        b'"x"',
        b'{"SuppressedDestinationSummaries": [{"EmailAddress": "a@exam',
        b'{"message": "try later"}',
        b'{"SuppressedDestinationSummaries": null}',
    ],
)
def test_what_is_no_page_of_the_list_is_a_fault_and_never_an_empty_list(
    page_of: Any, body: bytes
) -> None:
    with pytest.raises(Unavailable):
        page_of(body)


@pytest.mark.parametrize("body", [b"{}", b'{"SuppressedDestinationSummaries": []}'])
def test_an_empty_list_is_read_however_it_is_told(page_of: Any, body: bytes) -> None:
    assert page_of(body).entries == ()
