"""Where the weather is made: the Procfile's processes, and SES behind a gate that can be shut."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from mail_service.cli.embedded_postgres import EmbeddedPostgres
from mail_service.sandbox.signing import Signer
from tests.journeys.programs import ROOT, Program
from tests.journeys.town import Town
from tests.weather.gate import Gate
from tests.weather.weathers import CONFIGURATION_SET, FAIR, NEVER_PROVED, Weather

AS_SHIPPED = {
    "SES_CONNECT_TIMEOUT": "3",
    "SES_READ_TIMEOUT": "10",
    "LEASE_SECONDS": "60",
    "SWEEP_SECONDS": "5",
    "SEND_CONCURRENCY": "16",
    "RETRY_BASE_SECONDS": "30",
    "RETRY_CAP_SECONDS": "3600",
}
"""What a person gets who sets nothing."""

QUICK = {
    "SES_CONNECT_TIMEOUT": "1",
    "SES_READ_TIMEOUT": "2",
    "LEASE_SECONDS": "6",
    "SWEEP_SECONDS": "1",
    "SEND_CONCURRENCY": "4",
    "RETRY_BASE_SECONDS": "0.5",
    "RETRY_CAP_SECONDS": "1",
}
"""The same in seconds instead of minutes."""

WORKERS = 2


class Stage(Town):
    """One web, two workers and a clock. ``source`` may be a patched copy of the product."""

    def __init__(
        self,
        postgres: EmbeddedPostgres,
        *,
        directory: Path,
        settings: Mapping[str, str],
        source: Path = ROOT,
        template: str | None = None,
        signer: Signer | None = None,
    ) -> None:
        super().__init__(
            postgres,
            template=template,
            directory=directory,
            signer=signer,
            settings={**settings, "SES_CONFIGURATION_SET": CONFIGURATION_SET},
        )
        self.gate = Gate(int(self.sandbox.url.rpartition(":")[2]))
        self.environment["SES_ENDPOINT_URL"] = self.gate.url
        if source != ROOT:
            self.source = source
            self.environment["PYTHONPATH"] = str(source)
        self.killed: list[Program] = []
        try:
            self._start(migrate=template is None)
        except BaseException:
            self.stop()
            self.gate.close()
            self.sandbox.close()
            raise

    def _start(self, *, migrate: bool) -> None:
        if migrate:
            self.release()
        web = self.start("web")
        self.workers = [self.start("worker") for _ in range(WORKERS)]
        clock = self.start("clock")
        self.wait_ready(web)
        for worker in self.workers:
            worker.wait_for("worker.started")
        clock.wait_for("clock.started")
        self.sandbox.knobs(
            hold_events=["Send", "Delivery"], hold_local_parts=[NEVER_PROVED], **FAIR
        )
        self.subscribe()

    def begin(self, weather: Weather) -> None:
        """Let the weather turn bad."""
        if weather.refused:
            self.gate.shut()
        if weather.knobs:
            self.sandbox.knobs(**weather.knobs)
        if weather.kill:
            killed = self.workers.pop(0)
            killed.kill9()
            self.killed.append(killed)
            self.workers.append(self.worker())

    def end(self, weather: Weather) -> None:
        """Let it clear up."""
        self.gate.open()
        self.sandbox.knobs(**FAIR)

    def now(self) -> datetime:
        """Give the database's time."""
        found: datetime = self.value("SELECT clock_timestamp()")
        return found

    def setting(self, name: str) -> float:
        """Give a setting of the processes that is a number."""
        return float(self.environment[name])

    def said(self, event: str, since: datetime) -> list[dict[str, Any]]:
        """Give what the workers have logged of one event since then, also those that were killed."""
        return [
            record
            for program in (*self.workers, *self.killed)
            for record in program.records(event)
            if datetime.fromisoformat(record["timestamp"]) >= since
        ]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            super().__exit__(kind, error, trace)
        finally:
            self.gate.close()
