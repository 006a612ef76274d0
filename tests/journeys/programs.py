"""The Procfile's processes as a test runs them: a group each, a log each, and nothing left behind."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

ROOT = Path(__file__).parents[2]
Found = TypeVar("Found")

POLL_SECONDS = 0.02


def procfile(root: Path = ROOT) -> dict[str, list[str]]:
    """Give the command of each process as the Procfile has it."""
    lines = (root / "Procfile").read_text().splitlines()
    pairs = (line.split(":", 1) for line in lines if line.strip())
    return {name.strip(): shlex.split(command) for name, command in pairs}


def free_port() -> int:
    """Give a port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(
    look: Callable[[], Found | None],
    what: str,
    seconds: float = 15,
    *,
    explain: Callable[[], str] = str,
) -> Found:
    """Look until there is something, and give it; fails with what was waited for after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}\n{explain()}")
        time.sleep(POLL_SECONDS)


class Program:
    """One running process with its children, in a process group of its own."""

    def __init__(
        self, name: str, command: list[str], environment: Mapping[str, str], log: Path, root: Path
    ) -> None:
        self.name = name
        self.log = log
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}"
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                command,
                env={"PATH": path, **environment},
                cwd=root,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )
        self.pid = self._process.pid

    @property
    def running(self) -> bool:
        """Whether its first process is there."""
        return self._process.poll() is None

    def text(self) -> str:
        """Give all that it has written."""
        return self.log.read_text(errors="replace")

    def tail(self, lines: int = 15) -> str:
        """Give the last that it has written, under its name."""
        code = self._process.poll()
        state = "running" if code is None else f"ended with {code}"
        text = "\n".join(line[:300] for line in self.text().splitlines()[-lines:])
        return f"--- {self.name} ({self.pid}, {state})\n{text}"

    def records(self, event: str | None = None) -> list[dict[str, Any]]:
        """Give its JSON lines, all or those of one event."""
        found: list[dict[str, Any]] = []
        for line in self.text().splitlines():
            with suppress(ValueError):
                record = json.loads(line)
                if isinstance(record, dict) and event in {None, record.get("event")}:
                    found.append(record)
        return found

    def wait_for(self, event: str, seconds: float = 20) -> dict[str, Any]:
        """Wait until it has logged an event."""

        def look() -> dict[str, Any] | None:
            assert self.running, f"{self.name} has ended\n{self.tail()}"
            return next(iter(self.records(event)), None)

        return until(look, f"{self.name} logs {event}", seconds, explain=self.tail)

    def signal_group(self, number: signal.Signals, times: int = 1) -> None:
        """Signal every process of the group, as a platform does with a dyno."""
        if self._process.returncode is not None and Path(f"/proc/{self.pid}").exists():
            return  # it has ended, and its number is somebody else's by now
        for _ in range(times):
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def kill9(self) -> None:
        """Kill all of it without warning."""
        self.signal_group(signal.SIGKILL)
        self._process.wait(10)

    def wait(self, seconds: float) -> int:
        """Wait for its end; gives the exit status."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds:g} s\n{self.tail()}") from None

    def end(self, seconds: float = 25) -> None:
        """Stop it the gentle way, then for certain."""
        self.signal_group(signal.SIGTERM)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill9()
        self.signal_group(signal.SIGKILL)  # whoever of its children is left
