"""A temporary directory that vanishes with its owner, together with the processes of the run."""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from mail_service.cli import watchdog
from mail_service.errors import Unavailable

MARKER = watchdog.MARKER

# A socket's path has room for 103 bytes on the strictest system; the rest is for our own names.
_LONGEST_BASE = 50
_PLAIN = re.compile(r"[A-Za-z0-9/._+-]+")


class RunDirectory:
    """Own a fresh directory; when this process ends, even by ``kill -9``, nothing of it stays."""

    def __init__(self) -> None:
        # The watchdog makes the directory, so that there is none without a watchdog.
        self._watchdog = subprocess.Popen(
            [sys.executable, "-I", "-S", watchdog.__file__, str(_base())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd="/",
            env={"PATH": os.defpath},
            start_new_session=True,
        )
        told = b""
        if self._watchdog.stdout is not None:
            with self._watchdog.stdout as stdout:
                told = stdout.readline()
        if not told:
            raise Unavailable("No directory for the run could be made: is the disk full?")
        self.path = Path(os.fsdecode(told.rstrip(b"\n")))

    @property
    def marker(self) -> dict[str, str]:
        """What the environment of each process of the run has to contain."""
        return {MARKER: str(self.path)}

    def guard(self, group: int) -> None:
        """Have this process group killed at the end, unless it is gone by then."""
        pipe = self._watchdog.stdin
        if pipe is not None and not pipe.closed:
            pipe.write(f"{group}\n".encode())
            pipe.flush()

    def close(self) -> None:
        """End the run's processes and remove the directory; returns when both are done."""
        if self._watchdog.stdin is not None:
            self._watchdog.stdin.close()
        self._watchdog.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _base() -> Path:
    """Choose where temporary directories go: TMPDIR when sockets and a lesser user can live there."""
    for name in (tempfile.gettempdir(), "/tmp", "/var/tmp"):  # noqa: S108 - mkdtemp follows
        base = Path(name).resolve()
        fits = len(os.fsencode(base)) <= _LONGEST_BASE and _PLAIN.fullmatch(str(base))
        if fits and os.access(base, os.W_OK | os.X_OK) and _open_to_all(base):
            return base
    raise Unavailable("No temporary directory is usable: set TMPDIR to a short, writable one.")


def _open_to_all(base: Path) -> bool:
    """Tell whether a user without rights, as whom root runs PostgreSQL, can get there."""
    if os.geteuid() != 0:
        return True
    return all(folder.stat().st_mode & 0o001 for folder in (base, *base.parents))
