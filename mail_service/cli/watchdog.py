"""Make a directory for a run and clean up after the run's owner, however that process ended.

Run by path as ``python -I -S watchdog.py BASE`` in a session of its own, so nothing but the standard
library may be imported here. It makes the directory below BASE and prints its path. Each line on
stdin names a process group of the owner. When stdin ends, by ``close`` or because the kernel closed
it after a ``kill -9``, the processes of the run are killed, the PostgreSQL whose data is in the
directory is stopped at once, and the directory is removed.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

MARKER = "MAIL_SERVICE_RUN"
"""Environment variable that every process of a run carries, with the run's directory as value."""

_PATIENCE = 10.0
_QUIET_LOOKS = 15
_PROC = Path("/proc")


def main(base: str) -> None:
    """Make a directory; once the owner is gone, leave neither process nor directory of its run."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # A service manager signals everyone at once; this one has to outlive the others.
        signal.signal(number, signal.SIG_IGN)
    directory = Path(tempfile.mkdtemp(prefix="mail-", dir=base))
    with suppress(BrokenPipeError):
        sys.stdout.write(f"{directory}\n")
        sys.stdout.flush()
    # Half a line is the last thing an owner wrote before it was killed.
    groups = [int(line) for line in sys.stdin if line.endswith("\n")]
    deadline = time.monotonic() + _PATIENCE
    _kill_processes(directory, groups, deadline)
    postmaster = _postmaster(directory)
    if postmaster is not None:
        _stop(postmaster, deadline)
    while directory.exists():
        # A process that is still dying may write a last file between the walk and the rmdir.
        shutil.rmtree(directory, ignore_errors=True)
        if time.monotonic() > deadline:
            return
        time.sleep(0.02)


def _kill_processes(directory: Path, groups: list[int], deadline: float) -> None:
    """Kill what carries the run's mark; without /proc, the groups that the owner named."""
    if not (_PROC / "self").exists():
        for group in groups:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(group, signal.SIGKILL)
        return
    # Again until none is left: one may have been starting another while we looked, and in the middle
    # of exec a process has no environment to be seen, so one look that finds nothing proves little.
    # PostgreSQL is spared, because killed it would leave its shared memory behind.
    quiet = 0
    while quiet < _QUIET_LOOKS and time.monotonic() < deadline:
        found = _marked(directory)
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        quiet = 0 if found else quiet + 1
        time.sleep(0.01)


def _marked(directory: Path) -> list[int]:
    wanted = f"{MARKER}={directory}".encode()
    postgres = f"{directory / 'data'}".encode()
    found: list[int] = []
    for entry in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                command = (entry / "cmdline").read_bytes().split(b"\0")
                if postgres not in command or not command[0].endswith(b"/postgres"):
                    found.append(int(entry.name))
    return found


def _postmaster(directory: Path) -> int | None:
    """Find the running postmaster of the directory, and never a stranger who got its number."""
    try:
        pid = int((directory / "data" / "postmaster.pid").read_text().splitlines()[0])
    except (OSError, ValueError, IndexError):
        return None
    return pid if str(directory) in command_line(pid) else None


def _stop(pid: int, deadline: float) -> None:
    """Immediate shutdown, which also ends the children and frees the shared memory."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGQUIT)
    while command_line(pid):
        if time.monotonic() > deadline:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            return
        time.sleep(0.01)


def command_line(pid: int) -> str:
    """Give how a process was started; empty when it is gone, or a zombie that nobody has reaped."""
    if (_PROC / "self").exists():
        try:
            return (_PROC / str(pid) / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            return ""
    found = subprocess.run(
        ["ps", "-p", str(pid), "-o", "args="], capture_output=True, text=True, check=False
    ).stdout
    return "" if "<defunct>" in found else found.strip()


if __name__ == "__main__":
    main(sys.argv[1])
