"""Seen in a long run: the number of a process that had ended was given to another, which was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.journeys.programs import Program, until


def test_a_process_that_bears_the_number_of_one_that_has_ended_is_left_alone(
    tmp_path: Path,
) -> None:
    ended = Program("ended", ["true"], {}, tmp_path / "ended.log", tmp_path)
    assert ended.wait(10) == 0
    with subprocess.Popen(
        [sys.executable, "-c", "import sys; sys.stdin.read()"],
        stdin=subprocess.PIPE,
        start_new_session=True,
    ) as bystander:
        ended.pid = bystander.pid  # as the system does once it has used up its numbers
        ended.signal_group(signal.SIGKILL)
        ended.kill9()
        ended.end()
        assert bystander.stdin is not None
        bystander.stdin.close()
        assert bystander.wait(10) == 0


def test_what_an_ended_process_leaves_behind_in_its_group_is_killed(tmp_path: Path) -> None:
    command = ["sh", "-c", "sleep 600 & echo $!"]
    ended = Program("ended", command, {}, tmp_path / "ended.log", tmp_path)
    assert ended.wait(10) == 0
    child = Path("/proc") / ended.text().strip()
    assert child.exists()
    ended.kill9()

    def gone() -> bool:
        return not child.exists() or "Z (zombie)" in (child / "status").read_text()

    until(gone, "the child has ended", 5)
