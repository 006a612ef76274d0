"""The real Procfile's processes, each in a session of its own with a log file of its own."""

# honcho has no types; it reads the Procfile and stays inside this file.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from mail_service.cli.postgres_server import tail
from mail_service.cli.run_directory import RunDirectory
from mail_service.errors import MailServiceError, Unavailable

ROOT = Path(__file__).parents[2]
"""The checkout: where the Procfile and gunicorn.conf.py are."""

STOP_SECONDS = 25.0

Say = Callable[[str], None]


class ProcessEnded(MailServiceError):
    """A process ended that should run."""


@dataclass
class _Running:
    name: str
    log: Path
    process: subprocess.Popen[bytes]
    copier: threading.Thread | None = None


@dataclass
class ProcfileProcesses:
    """Starts what the Procfile says. ``echo``, if given, gets each line of each log as well."""

    run: RunDirectory
    environ: dict[str, str]
    echo: Say | None = None
    _commands: dict[str, str] = field(default_factory=dict[str, str])
    _running: list[_Running] = field(default_factory=list[_Running])

    def __post_init__(self) -> None:
        """Read the Procfile. Raises Unavailable where there is none to be read."""
        try:
            from honcho.environ import parse_procfile
        except ImportError as missing:
            raise Unavailable("The demo needs the development tools: make setup") from missing
        try:
            text = (ROOT / "Procfile").read_text()
        except OSError as missing:
            raise Unavailable("The demo runs from a checkout, with its Procfile.") from missing
        self._commands = cast("dict[str, str]", parse_procfile(text).processes)
        self.logs.mkdir()

    @property
    def logs(self) -> Path:
        """Where the log files are."""
        return self.run.path / "logs"

    def release(self) -> None:
        """Run the release phase to its end. Raises ProcessEnded when it fails."""
        release = self._start("release")
        if release.process.wait(60) != 0:
            raise ProcessEnded(f"release failed:\n{tail(release.log)}")
        self._running.remove(release)

    def start(self) -> None:
        """Start every other process."""
        for name in self._commands:
            if name != "release":
                self._start(name)

    def check(self) -> None:
        """Raise ProcessEnded when one of them is no longer running."""
        for one in self._running:
            status = one.process.poll()
            if status is not None:
                raise ProcessEnded(f"{one.name} ended with status {status}")

    def tails(self) -> str:
        """Give the end of each log."""
        return "\n".join(
            f"--- {log.name}\n{tail(log, 15)}" for log in sorted(self.logs.glob("*.log"))
        )

    def stop(self) -> None:
        """Stop them all as a platform does: SIGTERM, and SIGKILL after 25 s."""
        for one in self._running:
            _signal(one, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for one in self._running:
            try:
                one.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                _signal(one, signal.SIGKILL)
                one.process.wait()
            if one.copier is not None:
                one.copier.join()
        self._running.clear()

    def _start(self, name: str) -> _Running:
        log = self.logs / f"{name}.log"
        with log.open("ab") as sink:
            process = subprocess.Popen(
                # The shell, because a Procfile's line may use variables; exec, to be rid of it.
                ["/bin/sh", "-c", f"exec {self._commands[name]}"],
                cwd=ROOT,
                env=self.environ | self.run.marker,
                stdin=subprocess.DEVNULL,
                stdout=sink if self.echo is None else subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        one = _Running(name, log, process)
        self._running.append(one)
        self.run.guard(process.pid)
        if self.echo is not None:
            one.copier = threading.Thread(target=_copy, args=(one, self.echo), daemon=True)
            one.copier.start()
        return one


def _signal(one: _Running, number: signal.Signals) -> None:
    """Signal a process and its children, unless it was reaped: its number may be another's by then."""
    if one.process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(one.process.pid, number)


def _copy(one: _Running, echo: Say) -> None:
    """Copy a process's output to its log and to whoever watches, until the process ends."""
    if one.process.stdout is None:
        return
    with one.process.stdout as output, one.log.open("ab") as log:
        for line in output:
            log.write(line)
            log.flush()
            echo(f"{one.name:8}| {line.decode(errors='replace').rstrip()}")
