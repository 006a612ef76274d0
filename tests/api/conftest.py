"""A client of the API that holds every answer against the API's own description."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import uuid4

import pytest
from falcon import testing
from jsonschema import Draft202012Validator, FormatChecker

from api.app import create_app
from mail_service import wiring
from mail_service.cli.embedded_postgres import EmbeddedPostgres
from mail_service.runtime import Runtime
from mail_service.settings import Process, Settings
from mail_service.store.pool import Database
from mail_service.workflows import operate
from tests.conftest import ENVIRONMENT
from tests.signing import make_reader

USUAL = "the usual key"
ALL = ("send", "read", "operate")


_DOCUMENT: dict[str, Any] = {}


@dataclass
class Api:
    """Sends requests with a key of every scope unless told otherwise."""

    rt: Runtime
    key: str | None
    nudge: Callable[[], None] = lambda: None
    nudges: list[None] = field(default_factory=list[None])

    def __post_init__(self) -> None:
        self.app = create_app(self.rt, self._nudged)
        self.client = testing.TestClient(self.app)
        # The same for every runtime, and not made anew for each test.
        self.document: dict[str, Any] = _DOCUMENT or self.client.simulate_get("/openapi.json").json
        _DOCUMENT.update(self.document)

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        key: str | None = USUAL,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> testing.Result:
        """Send; ``body`` is bytes or becomes JSON; ``key`` None sends none."""
        sent = dict(headers or {})
        key = self.key if key == USUAL else key
        if key is not None:
            sent.setdefault("Authorization", f"Bearer {key}")
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        result = self.client.simulate_request(method, path, body=body, headers=sent, **more)
        self._check(method, path, result)
        return result

    def get(self, path: str, **more: Any) -> testing.Result:
        return self("GET", path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> testing.Result:
        return self("POST", path, body, **more)

    def _nudged(self) -> None:
        self.nudges.append(None)
        self.nudge()

    def count(self, table: str) -> int:
        """Give how many rows a table has."""
        with self.rt.db.transaction() as tx:
            return tx.value(int, f"SELECT count(*) FROM mail_service.{table}")  # pyright: ignore

    def _check(self, method: str, path: str, result: testing.Result) -> None:
        """Every answer that is documented fits what is documented, and so does every error."""
        media = result.headers["content-type"].partition(";")[0] if result.content else None
        if result.status_code >= 400 and result.content:
            assert media == "application/problem+json"
            self._fits(result.json, "#/components/schemas/Problem")
            assert result.json["status"] == result.status_code
            assert ("errors" in result.json) == (result.status_code == 422)
        operation = self._operation(method, path)
        if operation is None or not result.content:
            return
        told = operation["responses"].get(str(result.status_code))
        if told is None:
            assert result.status_code >= 400, f"{result.status_code} is not documented"
            return
        assert media in told["content"], f"{media} is not documented"
        schema = told["content"][media]["schema"]
        self._fits(result.json if "json" in str(media) else result.text, schema)

    def _operation(self, method: str, path: str) -> dict[str, Any] | None:
        for template, methods in self.document["paths"].items():
            if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), path.partition("?")[0]):
                return methods.get(method.lower())
        return None

    def _fits(self, value: Any, schema: Any) -> None:
        schema = {"$ref": schema} if isinstance(schema, str) else schema
        Draft202012Validator(
            schema | {"components": self.document["components"]}, format_checker=FormatChecker()
        ).validate(value)


def key_of(rt: Runtime, *scopes: str) -> str:
    """Make a key with these scopes."""
    return operate.create_key(rt.db, key_id=uuid4(), name="test", scopes=scopes or ALL).key


@pytest.fixture(scope="session")
def standing(postgres: EmbeddedPostgres, template: str) -> Iterator[Api]:
    """The API on a database that no test empties: for requests that are refused or only look."""
    postgres.create_database("standing_api", template=template)
    url = postgres.url("standing_api")
    db = Database(url, name="standing", size=4)
    db.open()
    settings = Settings.from_env(ENVIRONMENT | {"DATABASE_URL": url}, Process.WEB)
    rt = wiring.runtime(settings, Process.WEB, db)
    yield Api(replace(rt, read_envelope=make_reader()), key_of(rt))
    db.close()


@pytest.fixture
def api(rt: Runtime) -> Api:
    """The API on a clean database, verifying SNS signatures of the test signer."""
    return Api(replace(rt, read_envelope=make_reader()), key_of(rt))


@pytest.fixture
def api_of(rt: Runtime) -> Callable[[Runtime], Api]:
    """Gives the API on another runtime."""
    key = key_of(rt)
    return lambda other: Api(other, key)


@pytest.fixture
def gone(rt: Runtime) -> Iterator[Runtime]:
    """A runtime whose database does not answer."""
    db = Database(
        "postgresql://nobody:database-secret@127.0.0.1:1/none",
        name="gone",
        size=1,
        wait_seconds=0.2,
    )
    db.open()
    yield replace(rt, db=db)
    db.close()


ACCOUNT = {"email": "ada@example.com", "name": "Ada"}
EMAIL = {"dedup_key": "order-1", "template": "welcome-v1", "to": ["ada@example.com"]}
NOBODY = "00000000-0000-4000-8000-000000000000"
