"""Each seeded bug still fits the code, or the proof that it is noticed would be of another program."""

from pathlib import Path

import pytest

from tests.campaign.sensitivity import BUGS as CAMPAIGN
from tests.chaos.bugs import BUGS as CHAOS
from tests.statemachine.bugs import BUGS as STATE_MACHINE
from tests.weather.sensitivity import BUGS as WEATHER

ROOT = Path(__file__).parents[1]

PATCHES = {
    f"{run}: {bug.name}, {number}": patch
    for run, bugs in {
        "campaign": CAMPAIGN,
        "chaos": [seeded.bug for seeded in CHAOS],
        "weather": [seeded.bug for seeded in WEATHER],
        "state machine": STATE_MACHINE,
    }.items()
    for bug in bugs
    for number, patch in enumerate(bug.patches, 1)
}


@pytest.mark.parametrize("name", PATCHES)
def test_the_place_of_a_seeded_bug_is_there_once(name: str) -> None:
    patch = PATCHES[name]
    assert (ROOT / patch.path).read_text().count(patch.before) == 1
    assert patch.before != patch.after
