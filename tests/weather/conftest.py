"""The weather shows the logs of its processes beside every failure, as the journeys do."""

from tests.journeys.conftest import pytest_runtest_makereport, signer

__all__ = ["pytest_runtest_makereport", "signer"]
