"""Looks for what a run must not leave behind: processes that name its directory, and the directory."""

import time
from collections.abc import Callable
from pathlib import Path

import psutil


def processes_of(directory: Path) -> list[psutil.Process]:
    """Give the living processes whose command line or environment names a directory."""
    wanted = str(directory)
    found: list[psutil.Process] = []
    for process in psutil.process_iter():
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                continue  # dead, and waiting for a parent that is not ours
            named = any(wanted in word for word in process.cmdline())
            if named or any(wanted in value for value in process.environ().values()):
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
    return found


def variable_of(process: psutil.Process, name: str) -> str | None:
    """Give a variable of a process's environment; None where it, or the process, is not there."""
    try:
        return process.environ().get(name)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None  # programs come and go while a demo starts


def gone(process: psutil.Process) -> bool:
    """Tell whether a process has ended, reaped or not."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def until(there: Callable[[], bool], seconds: float = 20) -> bool:
    """Wait for something; says whether it came."""
    deadline = time.monotonic() + seconds
    while not there():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def nothing_is_left(directory: Path, family: list[psutil.Process]) -> bool:
    """Wait until directory and processes are gone: those that name it, and those once seen of it."""
    return until(
        lambda: (
            not directory.exists()
            and not processes_of(directory)
            and all(gone(process) for process in family)
        )
    )
