"""However the demo ends, no process and no directory of it is left."""

import os
import signal

import pytest

from tests.cli import leftovers
from tests.demo.conftest import RunningDemo, Start

SETTLED = "all five ended where they should"


def _left_nothing(demo: RunningDemo) -> bool:
    return leftovers.nothing_is_left(demo.directory, demo.family)


def test_ctrl_c_is_how_it_ends(start: Start) -> None:
    demo = start()
    demo.wait_for(SETTLED)
    os.kill(demo.process.pid, signal.SIGINT)
    # Impatience changes nothing.
    os.kill(demo.process.pid, signal.SIGINT)
    assert demo.end() == 0, demo.text
    assert "nothing is left behind" in demo.text
    assert _left_nothing(demo)


def test_sigterm_in_the_middle_is_a_failure_that_leaves_nothing(start: Start) -> None:
    demo = start("--once", "--verbose")
    demo.wait_for("signing up")
    demo.process.terminate()
    assert demo.end() == 130, demo.text
    assert "web     | {" in demo.text
    assert _left_nothing(demo)


def test_kill_9_leaves_nothing(start: Start) -> None:
    demo = start()
    demo.wait_for("in doubt")
    assert len(demo.family) >= 6  # watchdog, server, web with its workers, worker, clock
    demo.process.kill()
    demo.process.wait()
    assert _left_nothing(demo)


@pytest.mark.parametrize("step", ["PostgreSQL", "sandbox", "web, worker, clock"])
def test_kill_9_while_it_starts_leaves_nothing(start: Start, step: str) -> None:
    demo = start()
    demo.wait_for(f"... {step}")
    marks = [leftovers.variable_of(process, "MAIL_SERVICE_RUN") for process in demo.family]
    demo.process.kill()
    demo.process.wait()
    assert leftovers.until(lambda: all(leftovers.gone(process) for process in demo.family)), [
        (process, leftovers.variable_of(process, "MAIL_SERVICE_RUN"))
        for process in demo.family
        if not leftovers.gone(process)
    ]
    for mark in filter(None, marks):
        assert not os.path.exists(mark)  # noqa: PTH110


def test_a_process_that_ends_is_told_with_its_log_and_leaves_nothing(start: Start) -> None:
    demo = start()
    demo.wait_for(SETTLED)
    demo.child("mail-service worker").kill()
    assert demo.end() == 1, demo.text
    assert "The demo failed: worker ended with status -9" in demo.text
    assert "--- worker.log" in demo.text
    assert '"event": "worker.started"' in demo.text
    assert _left_nothing(demo)
