"""The real demo as a process of its own, watched through what it prints."""

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.cli import leftovers

COMMAND = Path(sys.executable).parent / "mail-service"

# What somebody may have set for other work; nothing of it may reach the demo.
FOREIGN = {
    "PATH": os.environ.get("PATH", os.defpath),
    "HOME": "",
    "DATABASE_URL": "postgresql://127.0.0.1:1/production",
    "SES_ENDPOINT_URL": "https://127.0.0.1:1",
    "APP_ENV": "production",
    "AWS_PROFILE": "nobody",
    "AWS_ENDPOINT_URL": "http://127.0.0.1:1",
    "HTTP_PROXY": "http://127.0.0.1:1",
    "http_proxy": "http://127.0.0.1:1",
    "PORT": "nonsense",
    "PGPORT": "1",
    "TEMPLATE_DIR": "/nowhere",
    "PYTHONWARNINGS": "error",
}


class RunningDemo:
    """A demo that is running, or has run."""

    def __init__(self, output: Path, *arguments: str) -> None:
        self._output = output
        with output.open("wb") as sink:
            self.process = subprocess.Popen(
                [COMMAND, "demo", *arguments],
                env=FOREIGN,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.family: list[psutil.Process] = []

    @property
    def text(self) -> str:
        """What it has printed so far."""
        return self._output.read_text()

    @property
    def directory(self) -> Path:
        """Its run's directory, as it tells where the logs are."""
        found = re.search(r"^logs +(/\S+)/logs/$", self.text, re.MULTILINE)
        assert found is not None, self.text
        return Path(found[1])

    def wait_for(self, words: str) -> None:
        """Wait until it prints something, and remember which processes it has by then."""
        arrived = leftovers.until(
            lambda: words in self.text or self.process.poll() is not None, seconds=80
        )
        assert arrived, self.text
        assert words in self.text, self.text
        self.family = psutil.Process(self.process.pid).children(recursive=True)

    def end(self) -> int:
        """Wait for its end; gives its exit status."""
        return self.process.wait(80)

    def child(self, words: str) -> psutil.Process:
        """Give the one process whose command line ends in these words."""
        (found,) = [p for p in self.family if " ".join(p.cmdline()).endswith(words)]
        return found


Start = Callable[..., RunningDemo]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts demos, and ends those that a failed test left running."""
    started: list[RunningDemo] = []

    def run(*arguments: str) -> RunningDemo:
        demo = RunningDemo(tmp_path / f"output-{len(started)}", *arguments)
        started.append(demo)
        return demo

    yield run
    for demo in started:
        if demo.process.poll() is None:
            demo.process.kill()
            demo.process.wait()
