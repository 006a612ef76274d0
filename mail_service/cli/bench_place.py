"""Where a bench happens: a database, the provider, and processes that all vanish with it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mail_service.cli import bench_cost, bench_provider, demo_settings
from mail_service.cli.bench_database import BenchDatabase
from mail_service.cli.bench_mail import CONFIGURATION_SET, write_mail, write_template
from mail_service.cli.demo_processes import ROOT
from mail_service.cli.embedded_postgres import EmbeddedPostgres
from mail_service.cli.postgres_server import tail
from mail_service.cli.run_directory import RunDirectory
from mail_service.errors import MailServiceError

TOPIC = "arn:aws:sns:eu-west-1:123456789012:bench"
STOP_SECONDS = 25.0


class BenchFailed(MailServiceError):
    """Something did not run, so there is nothing to measure."""


class ProviderClient:
    """The one provider of a bench, in a process of its own."""

    def __init__(self, run: RunDirectory) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", bench_provider.__file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.defpath, **run.marker},
            start_new_session=True,
            text=True,
        )
        run.guard(self._process.pid)
        self.url = f"http://127.0.0.1:{self._line().strip()}"

    def ask(self, do: str, **what: object) -> Any:  # noqa: ANN401 - JSON of several shapes
        """Have it do something; gives its answer."""
        if self._process.stdin is not None:
            self._process.stdin.write(json.dumps({"do": do, **what}) + "\n")
            self._process.stdin.flush()
        return json.loads(self._line())

    def calls(self) -> list[tuple[float, str, str, int]]:
        """Give every call since the last reset: when it came, its tag, its recipient, its size."""
        return [(at, tag, recipient, size) for at, tag, recipient, size in self.ask("report")]

    def close(self) -> None:
        """End it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.wait()

    def _line(self) -> str:
        line = self._process.stdout.readline() if self._process.stdout is not None else ""
        if not line:
            raise BenchFailed("the provider of the bench has ended")
        return line


@dataclass
class Running:
    """A process that was started, in a session of its own."""

    name: str
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        """Its number."""
        return self.process.pid

    def check(self) -> None:
        """Raise BenchFailed when it has ended with an error."""
        if self.process.poll() not in {None, 0}:
            raise BenchFailed(
                f"{self.name} ended with status {self.process.returncode}:\n{tail(self.log)}"
            )


class Place:
    """Everything that cases share. What is started is stopped in the opposite order."""

    def __init__(self, database_url: str | None) -> None:
        self._stack = ExitStack()
        self._number = 0
        self._running: list[Running] = []
        try:
            self.postgres = None
            if database_url is None:
                # Durability is PostgreSQL's default. Commit times cost little and are the only
                # witness of when a commit happened.
                self.postgres = self._stack.enter_context(
                    EmbeddedPostgres(
                        max_connections=200,
                        settings={"track_commit_timestamp": "on", "log_line_prefix": "%a|"},
                    )
                )
                self.run = self.postgres.run
                database_url = self.postgres.create_database("bench")
            else:
                self.run = self._stack.enter_context(RunDirectory())
            self._stack.callback(lambda: self.stop(self._running))
            self.mail = write_mail(self.run.path / "mail.json")
            self.provider = ProviderClient(self.run)
            self._stack.callback(self.provider.close)
            self.port = demo_settings.free_port(0)
            self.database = BenchDatabase(database_url)
            self.database.prepare()
            self._stack.callback(self.database.leave)
            self.environ = self._environment(database_url)
        except BaseException:
            self._stack.close()
            raise

    def _environment(self, database_url: str) -> dict[str, str]:
        given = demo_settings.settings(
            database_url=database_url,
            port=self.port,
            sandbox_url=self.provider.url,
            topic_arn=TOPIC,
        )
        for name in ("SES_CONNECT_TIMEOUT", "LEASE_SECONDS", "RECONCILE_AFTER_SECONDS"):
            del given[name]
        for name in ("RETRY_BASE_SECONDS", "RETRY_CAP_SECONDS", "SWEEP_SECONDS"):
            del given[name]
        return given | {
            "SES_READ_TIMEOUT": "17",  # the gate holds the first calls
            "SEND_RATE": "1000000",
            "SES_CONFIGURATION_SET": CONFIGURATION_SET,
            "ACCOUNT_TEMPLATE": "bench-v1",
            "TEMPLATE_DIR": str(write_template(self.run.path / "templates")),
        }

    def start(
        self, name: str, command: Sequence[str], environ: Mapping[str, str], cwd: Path = ROOT
    ) -> Running:
        """Start a process, with nothing of the caller's environment but PATH."""
        self._number += 1
        log = self.run.path / f"{name}-{self._number}.log"
        # The same code as ours, whichever checkout is installed.
        given = {"PYTHONPATH": str(ROOT), **environ}
        whole = demo_settings.environment(self.run.path, given) | self.run.marker
        with log.open("ab") as sink:
            process = subprocess.Popen(
                list(command),
                cwd=cwd,
                env=whole,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )
        self.run.guard(process.pid)
        running = Running(name, log, process)
        self._running.append(running)
        return running

    def stop(self, running: Sequence[Running]) -> None:
        """Stop processes as a platform does, and remove their logs."""
        self._running = [one for one in self._running if one not in running]
        for one in running:
            if one.process.poll() is None:
                with suppress(ProcessLookupError):
                    os.killpg(one.pid, signal.SIGTERM)
        until = time.monotonic() + STOP_SECONDS
        for one in running:
            try:
                one.process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                with suppress(ProcessLookupError):
                    os.killpg(one.pid, signal.SIGKILL)
                one.process.wait()
            with suppress(ProcessLookupError):
                os.killpg(one.pid, signal.SIGKILL)  # whoever of its children is left
            one.log.unlink(missing_ok=True)

    def wait(
        self,
        what: str,
        there: Callable[[], bool],
        *,
        seconds: float,
        running: Sequence[Running] = (),
    ) -> None:
        """Wait for something. Raises BenchFailed when it does not come, or a process ends with an error."""
        until = time.monotonic() + seconds
        while not there():
            for one in running:
                one.check()
            if time.monotonic() > until:
                ends = "\n".join(f"--- {one.name}\n{tail(one.log)}" for one in running)
                raise BenchFailed(f"waited {seconds:.0f} s for {what}\n{ends}")
            time.sleep(0.02)

    def at_end(self, undo: Callable[[], object]) -> None:
        """Have something undone before the place is given up."""
        self._stack.callback(undo)

    def cpu_of_database(self) -> float:
        """Give the CPU time of the PostgreSQL server so far; NaN where it can't be seen."""
        pid = self.database.postmaster
        return float("nan") if pid is None else bench_cost.cpu_seconds([pid])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
