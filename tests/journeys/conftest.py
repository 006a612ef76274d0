"""Towns for the journeys, and their logs beside every failure."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from mail_service.cli.embedded_postgres import EmbeddedPostgres
from mail_service.sandbox.signing import Signer
from tests.journeys.town import LIVING, Town

Build = Callable[..., Town]


@pytest.fixture(scope="session")
def signer() -> Signer:
    """One key for every sandbox, because making it takes a moment."""
    return Signer.generate()


@pytest.fixture(scope="module")
def build(
    postgres: EmbeddedPostgres,
    template: str,
    signer: Signer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Build]:
    """Builds towns that are closed, and their logs judged, after the module."""
    built: list[Town] = []

    def new(*, migrated: bool = True, **settings: str) -> Town:
        town = Town(
            postgres,
            template=template if migrated else None,
            directory=tmp_path_factory.mktemp("town"),
            signer=signer,
            settings=settings,
        )
        built.append(town)
        return town

    yield new
    faults: list[AssertionError] = []
    for town in built:
        try:
            town.close()
        except AssertionError as fault:
            faults.append(fault)
    if faults:
        raise faults[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the end of every process's log to the report of a failure."""
    report = yield
    if report.failed:
        for town in LIVING:
            report.sections.append(("processes of the town", town.tails()))
    return report
