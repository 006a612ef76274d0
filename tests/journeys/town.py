"""A whole installation: database, SES and SNS, and the Procfile's processes with short time-outs.

Every secret in its settings and every address and name that a test uses is a canary: when the town
is closed, each line of each process's log must be JSON and hold none of them.
"""

from __future__ import annotations

import json
import secrets
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg
import urllib3
from psycopg.rows import dict_row

from mail_service.cli.embedded_postgres import EmbeddedPostgres
from mail_service.ports import TAG_NAME
from mail_service.sandbox import Sandbox
from mail_service.sandbox.signing import Signer
from mail_service.store.pool import Database
from mail_service.workflows import operate
from tests.journeys.programs import ROOT, Program, free_port, procfile, until

TOPIC = "arn:aws:sns:eu-west-1:123456789012:ses-events"
WEBHOOK = "/webhooks/ses/sns"

SHORT_TIMES = {
    "SES_CONNECT_TIMEOUT": "1",
    "SES_READ_TIMEOUT": "1",
    "LEASE_SECONDS": "5",
    "SWEEP_SECONDS": "1",
    "RETRY_BASE_SECONDS": "1",
}

LOGGING = {"web", "worker", "clock"}
"""The processes that write a log; a command talks to people."""

LIVING: list[Processes] = []
"""Towns that are open, so that a failure can show their logs."""


def canary(kind: str) -> str:
    """Give a text that occurs nowhere else."""
    return f"canary-{kind}-{secrets.token_hex(12)}"


class Answer:
    """What the API said."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.text = response.data.decode()

    @property
    def json(self) -> Any:
        """The answer's content."""
        return json.loads(self.text)


class Api:
    """A client with a key. A refused connection is an error; nothing is repeated in secret."""

    def __init__(self, port: int, key: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.key = key
        self._pool = urllib3.PoolManager(
            retries=False, timeout=urllib3.Timeout(connect=2, read=20), maxsize=32
        )

    def call(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Make one request."""
        sent = {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        return Answer(
            self._pool.request(
                method, self.url + path, body=content, headers=sent | dict(headers or {})
            )
        )

    def get(self, path: str) -> Answer:
        """Read."""
        return self.call("GET", path)

    def post(self, path: str, body: object, **headers: str) -> Answer:
        """Write."""
        return self.call("POST", path, body, headers)

    def close(self) -> None:
        """Close what is idle."""
        self._pool.clear()


class Processes:
    """The processes of one installation on a given database and a given SES and SNS."""

    def __init__(
        self,
        *,
        url: str,
        sandbox_url: str,
        directory: Path,
        marker: Mapping[str, str],
        settings: Mapping[str, str] | None = None,
        source: Path = ROOT,
        port: int | None = None,
    ) -> None:
        self.url = url
        self.directory = directory
        self.source = source
        self.port = port or free_port()
        self.programs: list[Program] = []
        self.canaries = {
            name: canary(name.lower().replace("_", "-"))
            for name in ("ADDRESS_KEY", "CONSOLE_SECRET", "AWS_SECRET_ACCESS_KEY")
        }
        self.canaries["database password"] = canary("database-password")
        self.environment = {
            **marker,
            "APP_ENV": "test",
            "DATABASE_URL": url.replace(
                "postgres@", f"postgres:{self.canaries['database password']}@"
            ),
            "PORT": str(self.port),
            "AWS_REGION": "eu-west-1",
            "AWS_ACCESS_KEY_ID": "sandbox",
            "AWS_EC2_METADATA_DISABLED": "true",
            "MAIL_FROM": "Shop <shop@example.com>",
            "SES_CONFIGURATION_SET": "mail",
            "SES_ENDPOINT_URL": sandbox_url,
            "SNS_ENDPOINT_URL": sandbox_url,
            "SNS_CERT_ORIGINS": sandbox_url,
            "SNS_TOPIC_ARNS": TOPIC,
            **{key: value for key, value in self.canaries.items() if key.isupper()},
            **SHORT_TIMES,
            **(settings or {}),
        }
        # This tree, or a patched copy of it, goes before whatever is installed.
        self.environment["PYTHONPATH"] = str(source)
        self._api: Api | None = None
        LIVING.append(self)

    @property
    def webhook(self) -> str:
        """Where SNS posts to."""
        return f"http://127.0.0.1:{self.port}{WEBHOOK}"

    @property
    def api(self) -> Api:
        """A client with every scope."""
        if self._api is None:
            db = Database(self.url, name="tests", size=1)
            db.open()
            try:
                scopes = ("send", "read", "operate")
                made = operate.create_key(db, key_id=uuid.uuid4(), name="tests", scopes=scopes)
            finally:
                db.close()
            self._api = Api(self.port, made.key)
            self.canaries["API key"] = made.key
        return self._api

    def start(self, name: str, **settings: str) -> Program:
        """Start a process of the Procfile, with settings of its own."""
        log = self.directory / f"{name}-{len(self.programs)}.log"
        program = Program(
            name, procfile(self.source)[name], self.environment | settings, log, self.source
        )
        self.programs.append(program)
        return program

    def web(self, **settings: str) -> Program:
        """Start the web process; gives it when it can do its work."""
        program = self.start("web", **settings)
        self.wait_ready(program)
        return program

    def wait_ready(self, program: Program, seconds: float = 20) -> None:
        """Wait until the web process says that it is ready."""

        def look() -> bool:
            assert program.running, f"web has ended\n{program.tail()}"
            try:
                return self.api.get("/readyz").status == 200
            except urllib3.exceptions.HTTPError:
                return False

        self.until(look, "web is ready", seconds)

    def worker(self, **settings: str) -> Program:
        """Start a worker; gives it when it has begun."""
        program = self.start("worker", **settings)
        program.wait_for("worker.started")
        return program

    def clock(self, **settings: str) -> Program:
        """Start a clock; gives it when it has begun."""
        program = self.start("clock", **settings)
        program.wait_for("clock.started")
        return program

    def release(self) -> None:
        """Run the release command to its end."""
        program = self.start("release")
        assert program.wait(30) == 0, program.tail()

    def until(self, look: Any, what: str, seconds: float = 15) -> Any:
        """Look until there is something; a failure shows the end of every log."""
        return until(look, what, seconds, explain=self.tails)

    def tails(self) -> str:
        """Give the end of every log."""
        return "\n".join(program.tail() for program in self.programs)

    def sql(self, query: str, *params: Any) -> list[dict[str, Any]]:
        """Ask the database."""
        with psycopg.connect(
            self.url, autocommit=True, row_factory=dict_row, application_name="tests"
        ) as connection:
            cursor = connection.execute(query, params)  # pyright: ignore
            return cursor.fetchall() if cursor.description else []

    def value(self, query: str, *params: Any) -> Any:
        """Ask for one value."""
        (row,) = self.sql(query, *params)
        (value,) = row.values()
        return value

    def states(self) -> dict[str, int]:
        """Count the emails by state."""
        rows = self.sql(
            "SELECT state::text, count(*) AS n FROM mail_service.email_outbox GROUP BY state"
        )
        return {row["state"]: row["n"] for row in rows}

    def address(self, local_part: str = "someone") -> str:
        """Give a fresh address with a behaviour of the sandbox; it is a canary."""
        label = canary("address")
        self.canaries[label] = label
        return f"{local_part}+{label}@simulator.amazonses.com"

    def sign_up(self, local_part: str = "success", address: str | None = None) -> dict[str, Any]:
        """Open an account for a fresh address; gives its email."""
        name = canary("name")
        self.canaries[name] = name
        answer = self.api.post(
            "/v1/accounts", {"email": address or self.address(local_part), "name": name}
        )
        assert answer.status == 201, answer.text
        return answer.json["email"]

    def email(self, email: Mapping[str, Any]) -> dict[str, Any]:
        """Read an email back."""
        answer = self.api.get(f"/v1/emails/{email['id']}")
        assert answer.status == 200, answer.text
        return answer.json

    def wait_state(self, email: Mapping[str, Any], *states: str, seconds: float = 15) -> Any:
        """Wait until an email is in one of the states; gives it."""

        def look() -> dict[str, Any] | None:
            now = self.email(email)
            return now if now["state"] in states else None

        return self.until(look, f"email {email['id']} is {' or '.join(states)}", seconds)

    def wait_status(self, email: Mapping[str, Any], status: str, seconds: float = 15) -> Any:
        """Wait until the first recipient of a recorded email has a status; gives the email."""

        def look() -> dict[str, Any] | None:
            now = self.email(email)
            # An event may be here before the call that it speaks of was recorded.
            recorded = now["state"] != "sending"
            return now if recorded and now["recipients"][0]["status"] == status else None

        return self.until(look, f"a recipient of {email['id']} is {status}", seconds)

    def leaks(self, text: str) -> list[str]:
        """Name the canaries that occur in a text."""
        return [name for name, value in self.canaries.items() if value in text]

    def check_logs(self) -> None:
        """Every line of every process is one JSON object without a canary."""
        for program in self.programs:
            text = program.text()
            assert self.leaks(text) == [], program.tail()
            for line in text.splitlines() if program.name in LOGGING else ():
                try:
                    record = json.loads(line)
                except ValueError:
                    record = None
                assert isinstance(record, dict), f"{program.name} wrote no JSON: {line}"

    def stop(self) -> None:
        """End every process at once; stopping gently is a test of its own."""
        for program in self.programs:
            program.kill9()
        if self._api is not None:
            self._api.close()
        if self in LIVING:
            LIVING.remove(self)


class Town(Processes):
    """An installation with a sandbox in this very process."""

    def __init__(
        self,
        postgres: EmbeddedPostgres,
        *,
        template: str | None,
        directory: Path,
        signer: Signer | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.postgres = postgres
        self._database = f"town_{secrets.token_hex(6)}"
        postgres.create_database(self._database, template=template)
        self.sandbox = Sandbox(
            topic_arn=TOPIC,
            log=directory / "ses.log",
            delivery_log=directory / "sns.log",
            signer=signer,
        )
        super().__init__(
            url=postgres.url(self._database),
            sandbox_url=self.sandbox.url,
            directory=directory,
            marker=postgres.run.marker,
            settings=settings,
        )

    def subscribe(self) -> None:
        """Subscribe the webhook as SNS does it, and wait until it has confirmed."""
        self.sandbox.subscribe(self.webhook)
        assert self.sandbox.wait_confirmed(15), self.tails()

    def calls(self, email: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Give the requests that SES saw, all or those to the first recipient of an email."""
        arrived = [row for row in self.sandbox.log() if row["event"] == "arrived"]
        if email is None:
            return arrived
        (to,) = (recipient["address"] for recipient in email["recipients"])
        return [row for row in arrived if to in row["recipients"]]

    def check_tags_once(self) -> None:
        """SES saw no tag twice."""
        tags = [row["tags"][TAG_NAME] for row in self.calls()]
        assert len(tags) == len(set(tags)), "a tag was used for two calls"

    def close(self) -> None:
        """End everything, then judge the logs."""
        self.stop()
        self.sandbox.close()
        self.check_logs()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
