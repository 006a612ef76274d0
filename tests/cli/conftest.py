"""The command line, run in this process on the test's database: arguments in, status and text out."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import structlog

from mail_service.cli.main import main
from tests.conftest import ENVIRONMENT


@dataclass(frozen=True)
class Ran:
    """How a command ended, and what it wrote where."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What it printed, as JSON."""
        return json.loads(self.out)


Cli = Callable[..., Ran]


@pytest.fixture
def bare_cli(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Cli]:
    """The command line with no setting but those that a test gives."""
    for name in (*ENVIRONMENT, "DATABASE_URL", "TEMPLATE_DIR"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: object, **environ: str) -> Ran:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr("sys.argv", ["mail-service", *map(str, arguments)])
        capsys.readouterr()
        status: object = 0
        try:
            main()
        except SystemExit as end:
            status = end.code or 0
        written = capsys.readouterr()
        assert isinstance(status, int)
        return Ran(status, written.out, written.err)

    yield run
    structlog.reset_defaults()


@pytest.fixture
def cli(bare_cli: Cli, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line with the usual settings, on an empty database."""
    for name, value in {**ENVIRONMENT, "DATABASE_URL": database_url}.items():
        monkeypatch.setenv(name, value)
    return bare_cli
