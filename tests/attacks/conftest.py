"""The stage on which attacks are tried."""

from collections.abc import Iterator

import pytest

from mail_service.cli.embedded_postgres import EmbeddedPostgres
from tests.attacks.stage import Stage
from tests.origin import Start, origins
from tests.signing import make_reader


def _filled(url: str) -> Iterator[Stage]:
    stage = Stage(url)
    try:
        stage.fill()
        yield stage
    finally:
        stage.close()


@pytest.fixture(scope="session")
def _standing(postgres: EmbeddedPostgres, template: str) -> Iterator[Stage]:
    postgres.create_database("attacked", template=template)
    yield from _filled(postgres.url("attacked"))


@pytest.fixture(scope="session")
def _taking(postgres: EmbeddedPostgres, template: str) -> Iterator[Stage]:
    postgres.create_database("told", template=template)
    yield from _filled(postgres.url("told"))


@pytest.fixture
def standing(_standing: Stage) -> Stage:
    """A stage that no test changes, because nothing it posts is believed."""
    _standing.read = make_reader()  # what another test made it fetch in vain is forgotten
    return _standing


@pytest.fixture
def taking(_taking: Stage) -> Stage:
    """A stage on which several tests tell things that change nothing but what is told."""
    _taking.read = make_reader()
    return _taking


@pytest.fixture
def stage(database_url: str) -> Iterator[Stage]:
    """A stage of this test alone, for what changes more."""
    yield from _filled(database_url)


@pytest.fixture
def serve() -> Iterator[Start]:
    """Starts servers that mean no good."""
    with origins() as start:
        yield start
