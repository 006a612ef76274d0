"""What processes cost: CPU and memory from /proc. Where there is none, there are no such figures."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import psycopg

_PROC = Path("/proc")
_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


def family(pid: int) -> Iterator[int]:
    """Give a process and all that descends from it."""
    yield pid
    with suppress(OSError):
        for task in (_PROC / str(pid) / "task").iterdir():
            for child in (task / "children").read_text().split():
                yield from family(int(child))


def cpu_seconds(pids: Iterable[int]) -> float:
    """Give the CPU time of processes and their descendants so far, those that have ended included."""
    ticks = 0
    for pid in (one for root in pids for one in family(root)):
        with suppress(OSError):
            # The name may hold spaces; what is counted comes after it.
            fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks / _TICK


def resident_mb(pids: Iterable[int]) -> float:
    """Give the resident memory of the largest of processes and their descendants."""
    largest = 0
    for pid in (one for root in pids for one in family(root)):
        with suppress(OSError):
            largest = max(largest, int((_PROC / str(pid) / "statm").read_text().split()[1]))
    return largest * _PAGE / 1e6


def postmaster(connection: psycopg.Connection) -> int | None:
    """Give the server's main process, if it runs on this machine and may be looked at."""
    backend = connection.info.backend_pid
    try:
        name = (_PROC / str(backend) / "cmdline").read_bytes()
        parent = (_PROC / str(backend) / "stat").read_text().rpartition(")")[2].split()[1]
    except OSError:
        return None
    # A server elsewhere may have the number of a stranger here.
    return int(parent) if name.startswith(b"postgres:") else None
