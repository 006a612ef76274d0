"""Bad weather in a size that every run of the tests can afford."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from mail_service.cli.embedded_postgres import EmbeddedPostgres
from mail_service.sandbox.signing import Signer
from tests.weather.run import quick, run
from tests.weather.stage import QUICK, Stage
from tests.weather.weathers import WEATHERS

LEFT_TO_THE_COMMAND = {"account paused", "expired credentials", "missing configuration set"}
"""They end in a hold as a refused connection does; which one, is for the tests of the answers."""


@pytest.mark.timeout(180)
def test_bad_weather_fails_no_email_and_everything_goes_out_when_it_clears(
    postgres: EmbeddedPostgres, template: str, signer: Signer, tmp_path: Path
) -> None:
    asked = quick([weather for weather in WEATHERS if weather.name not in LEFT_TO_THE_COMMAND])
    shown = io.StringIO()
    stage = Stage(postgres, directory=tmp_path, settings=QUICK, template=template, signer=signer)
    outcome = run(asked, Console(file=shown, width=200), stage)
    assert outcome.violations == [], shown.getvalue()
