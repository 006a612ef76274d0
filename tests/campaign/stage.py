"""Where the campaign plays: a durable Postgres, the sandbox as a process that survives, and the product."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import psycopg
import urllib3

from mail_service.cli.embedded_postgres import EmbeddedPostgres
from mail_service.ports import TAG_NAME
from tests.journeys.programs import ROOT, Program, free_port, until
from tests.journeys.town import TOPIC, Processes

SETTINGS = {"SES_READ_TIMEOUT": "2", "LEASE_SECONDS": "6", "SEND_CONCURRENCY": "4"}
SLOTS = ("a", "b")
DOUBTFUL = ("timeout", "reset", "error500", "garbage")
"""Accepted, but the caller can't know. Their events come only when the killing is over."""

# Which worker claimed what, written in the claim's own transaction: the product does not say.
_CLAIMS = """
CREATE SCHEMA campaign;
CREATE TABLE campaign.claims (attempt_id uuid PRIMARY KEY, worker text);
CREATE FUNCTION campaign.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO campaign.claims VALUES (NEW.id, current_setting('campaign.worker', true));
    RETURN NEW;
END $$;
CREATE TRIGGER campaign_note AFTER INSERT ON mail_service.send_attempts
    FOR EACH ROW EXECUTE FUNCTION campaign.note();
"""


class CallLog:
    """The sandbox's own record of calls, read from its file as it grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        self.rows: list[dict[str, Any]] = []
        self.by_tag: dict[str, list[str]] = {}

    def refresh(self) -> None:
        """Read what was added."""
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.splitlines():
            row = json.loads(line)
            self.rows.append(row)
            self.by_tag.setdefault(row["tags"].get(TAG_NAME, ""), []).append(row["event"])


class Stage:
    """Everything that runs. ``source`` may be a patched copy of the product."""

    def __init__(self, directory: Path, seed: int, source: Path = ROOT) -> None:
        self._stack = ExitStack()
        try:
            self.postgres = self._stack.enter_context(EmbeddedPostgres())
            url = self.postgres.create_database("campaign")
            port, web_port = free_port(), free_port()
            self.sandbox_url = f"http://127.0.0.1:{port}"
            self.processes = Processes(
                url=url,
                sandbox_url=self.sandbox_url,
                directory=directory,
                marker=self.postgres.run.marker,
                settings=SETTINGS,
                source=source,
                port=web_port,
            )
            self._stack.callback(self.processes.stop)
            self.calls = CallLog(directory / "ses.log")
            self._deliveries = directory / "sns.log"
            self.sandbox = Program(
                "sandbox",
                [
                    *("mail-service", "sandbox", "--port", str(port), "--topic", TOPIC),
                    *("--webhook", self.processes.webhook, "--seed", str(seed)),
                    *("--log", str(directory / "ses.log")),
                    *("--delivery-log", str(self._deliveries)),
                ],
                self.postgres.run.marker,
                directory / "sandbox.log",
                ROOT,
            )
            self._stack.callback(self.sandbox.kill9)
            self._pool = urllib3.PoolManager(retries=False, timeout=5)
            self._stack.callback(self._pool.clear)
            self.processes.release()
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(_CLAIMS)
            self.web = self.processes.start("web")
            self.workers = {slot: self.start_worker() for slot in SLOTS}
            self.clock = self.processes.start("clock")
            self.processes.wait_ready(self.web)
            self.knobs(
                delivery_retries=60,
                delivery_retry_seconds=0.25,
                event_delay_seconds=0.6,
                hold_events=["Send", "Delivery"],
                hold_local_parts=DOUBTFUL,
            )
            until(self._confirmed, "the webhook has confirmed", 20, explain=self.processes.tails)
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def start_worker(self) -> Program:
        """Start a worker whose claims can be told from the other's."""
        name = f"worker-{len(self.processes.programs)}"
        url = self.processes.environment["DATABASE_URL"]
        options = quote(f"-c campaign.worker={name}", safe="")
        worker = self.processes.start("worker", DATABASE_URL=f"{url}&options={options}")
        worker.name = name
        return worker

    def replace_worker(self, slot: str) -> None:
        """Start a worker in the place of one that was killed, as a platform does."""
        self.workers[slot] = self.start_worker()

    def replace_web(self) -> None:
        """Start the web process again."""
        self.web = self.processes.start("web")

    def knobs(self, **changes: object) -> None:
        """Turn the sandbox's knobs."""
        body = json.dumps(changes).encode()
        answer = self._pool.request("POST", f"{self.sandbox_url}/_sandbox/knobs", body=body)
        assert answer.status == 200, answer.data

    def hurry(self) -> None:
        """Answer at once from now on."""
        self.knobs(answer_delay_seconds=0, event_delay_seconds=0)

    def release(self) -> None:
        """Let the events go that were held back."""
        self.knobs(hold_events=[])
        answer = self._pool.request("POST", f"{self.sandbox_url}/_sandbox/release")
        assert answer.status == 200, answer.data

    def _confirmed(self) -> bool:
        try:
            answer = self._pool.request("GET", f"{self.sandbox_url}/_sandbox/subscriptions")
        except urllib3.exceptions.HTTPError:
            return False
        items = json.loads(answer.data)["items"]
        return bool(items) and all(item["confirmed"] for item in items)

    def deliveries(self) -> list[dict[str, Any]]:
        """Give the sandbox's own record of event deliveries."""
        lines = self._deliveries.read_bytes().splitlines()
        return [json.loads(line) for line in lines]

    def send_events_told(self) -> bool:
        """Whether the Send event of every accepted call was delivered or given up."""
        self.calls.refresh()
        accepted = {row["message_id"] for row in self.calls.rows if row["event"] == "accepted"}
        told = {
            row["provider_message_id"]
            for row in self.deliveries()
            if row.get("event") == "Send" and not row["will_retry"]
        }
        return accepted <= told

    def settled(self) -> bool:
        """Whether nothing is pending or sending."""
        return not {"pending", "sending"} & set(self.processes.states())

    def wait_for_a_sweep(self) -> None:
        """Wait until a sweep that began after now has ended."""
        before = self.processes.value("SELECT clock_timestamp()")
        for _ in range(2):
            until(
                lambda since=before: self.processes.sql(
                    "SELECT 1 FROM mail_service.heartbeats WHERE name = 'sweep' AND at > %s", since
                ),
                "a sweep",
                20,
                explain=self.processes.tails,
            )
            before = self.processes.value(
                "SELECT at FROM mail_service.heartbeats WHERE name = 'sweep'"
            )

    def claimed_by(self, worker: Program) -> dict[str, tuple[str, str]]:
        """Give state and email of each attempt that a worker has claimed, by tag."""
        rows = self.processes.sql(
            """
            SELECT a.request_tag, a.state::text, a.email_id::text FROM campaign.claims c
            JOIN mail_service.send_attempts a ON a.id = c.attempt_id WHERE c.worker = %s
            """,
            worker.name,
        )
        return {row["request_tag"]: (row["state"], row["email_id"]) for row in rows}


def moments(seconds: float, apart: float = 0.002) -> Any:
    """Yield now and then until the time is up."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(apart)
