"""Our suppressions and SES's list, for tests of how they are made to agree."""

from collections.abc import Iterator

import pytest

from mail_service.runtime import Runtime
from mail_service.sandbox import Sandbox, Signer
from tests.conftest import ENVIRONMENT, Sql
from tests.suppressions.lists import Lists, lists


@pytest.fixture(scope="session")
def signer() -> Signer:
    """One key for all sandboxes: making it takes a while."""
    return Signer.generate()


@pytest.fixture
def sandbox(signer: Signer) -> Iterator[Sandbox]:
    """A local SES."""
    with Sandbox(signer=signer) as running:
        yield running


@pytest.fixture
def both(
    rt: Runtime, sql: Sql, sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Lists]:
    """Both lists, empty."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, ENVIRONMENT[name])
    with lists(rt, sql, sandbox) as found:
        yield found
