"""One PostgreSQL server process on a data directory: made, started, killed, started again."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from mail_service.cli import postgres_programs, watchdog
from mail_service.cli.run_directory import RunDirectory
from mail_service.errors import Unavailable

_PATIENCE = 30.0


class PostgresServer:
    """A server whose data, socket and log are in a run's directory, which its user then owns."""

    def __init__(self, run: RunDirectory, options: Mapping[str, str]) -> None:
        self._directory = run.path
        self._data = run.path / "data"
        self._log = run.path / "postgres.log"
        self._options = dict(options)
        # Nothing of ours: LANG or PGDATA of whoever runs this must not matter.
        self._environment = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC", **run.marker}
        self._programs = postgres_programs.find(run.path)
        self._process: subprocess.Popen[bytes] | None = None
        if self._programs.uid is not None and self._programs.gid is not None:
            os.chown(run.path, self._programs.uid, self._programs.gid)

    @property
    def pid(self) -> int:
        """Number of the running server process."""
        if self._process is None:
            raise Unavailable("the embedded PostgreSQL is not running")
        return self._process.pid

    def initialise(self, password: str) -> None:
        """Make the data directory: UTF-8, trust on the socket, a password over TCP."""
        secret = self._directory / "password"
        secret.write_text(password)
        secret.chmod(0o644)  # the directory itself is closed to others
        done = self._run(
            "initdb",
            *("--pgdata", str(self._data), "--username", "postgres"),
            *("--encoding", "UTF8", "--locale", "C"),
            *("--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"),
            *("--auth-local", "trust", "--auth-host", "scram-sha-256", "--pwfile", str(secret)),
            *("--no-sync", "--no-instructions"),
        )
        if done.wait() != 0:
            raise Unavailable(f"The embedded PostgreSQL can't be made:\n{self._log_tail()}")
        secret.unlink()

    def start(self) -> None:
        """Start the server, which recovers if it crashed; returns when it answers."""
        deadline = time.monotonic() + _PATIENCE
        while not self._started(deadline):
            # What passes: children of a killed server that still hold its shared memory, or
            # somebody else's connection that had our port for a moment.
            if time.monotonic() > deadline:
                raise Unavailable(f"The embedded PostgreSQL did not start:\n{self._log_tail()}")
            time.sleep(0.05)

    def kill9(self) -> None:
        """Kill the server and its children without warning, as a machine that crashes does.

        When this returns, no statement is running any more and every connection is dead.
        """
        # Stopped first, so that it starts no child behind our back.
        os.kill(self.pid, signal.SIGSTOP)
        family = [self.pid, *_children(self.pid)]
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._reap()
        deadline = time.monotonic() + _PATIENCE
        while any(map(watchdog.command_line, family)) and time.monotonic() < deadline:
            time.sleep(0.005)

    def stop(self) -> None:
        """Stop the server at once, leaving no shared memory behind. Safe to call twice."""
        if self._process is None and (self._data / "postmaster.pid").exists():
            # Killed before: only a server that comes and goes frees what that one held.
            with suppress(Unavailable):
                self.start()
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._reap()

    def _started(self, deadline: float) -> bool:
        """Start the process and wait for it; False when it ended instead."""
        options = (part for item in self._options.items() for part in ("-c", "=".join(item)))
        process = self._process = self._run("postgres", "-D", str(self._data), *options)
        while not self._ready(process.pid):
            if process.poll() is not None:
                self._process = None
                return False
            if time.monotonic() > deadline:
                raise Unavailable(f"The embedded PostgreSQL does not answer:\n{self._log_tail()}")
            time.sleep(0.01)
        return True

    def _run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [self._programs[program], *arguments],
                env=self._environment,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C in the terminal is for the owner: it decides when the server goes.
                start_new_session=True,
                user=self._programs.uid,
                group=self._programs.gid,
                extra_groups=None if self._programs.uid is None else [],
            )

    def _ready(self, pid: int) -> bool:
        """Tell whether the server says so in its pid file, which is where pg_ctl looks as well."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        # A server that was killed leaves its file behind; ours is the one with our number.
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def _reap(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _log_tail(self) -> str:
        return tail(self._log)


def _children(pid: int) -> list[int]:
    """Give the children of a process; where there is no /proc, they find out by themselves."""
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except OSError:
        return []


def tail(log: Path, lines: int = 20) -> str:
    """Give the last lines of a log."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except OSError:
        return "(no log)"
