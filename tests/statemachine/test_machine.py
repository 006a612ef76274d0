"""Random schedules: no step breaks a promise, and after the faults everything comes to its end.

A bigger size: ``STATE_MACHINE_EXAMPLES=5000 STATE_MACHINE_STEPS=100``.
"""

import os
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from mail_service.domain.states import TRANSITIONS
from tests.statemachine.machine import Machine
from tests.statemachine.world import World

EXAMPLES = int(os.environ.get("STATE_MACHINE_EXAMPLES", "40"))
STEPS = int(os.environ.get("STATE_MACHINE_STEPS", "30"))
SHRINK = os.environ.get("STATE_MACHINE_SHRINK", "1") == "1"

SIZE = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    print_blob=True,
    database=None,
    phases=[Phase.generate, Phase.shrink] if SHRINK else [Phase.generate],
    suppress_health_check=[
        HealthCheck.too_slow,  # each step is several transactions on a real PostgreSQL
        HealthCheck.filter_too_much,  # a step that is not possible yet is drawn again
        HealthCheck.data_too_large,  # a schedule of a hundred steps is what is wanted
        HealthCheck.large_base_example,
    ],
)


@pytest.mark.timeout(120 + EXAMPLES * STEPS // 10)
def test_no_schedule_breaks_a_promise(new_world: Callable[[], World]) -> None:
    worlds: list[World] = []

    def begin() -> Machine:
        worlds.append(new_world())
        return Machine(worlds[-1])

    try:
        run_state_machine_as_test(begin, settings=SIZE)
    except BaseException as broken:
        broken.add_note(f"found in {len(worlds)} examples")
        raise
    reached = worlds[-1].auditor.reached
    for what, times in sorted(reached.items()):
        print(f"{times:8} {what}")  # noqa: T201 - shown by pytest -s
    if EXAMPLES * STEPS >= 1000 * 50:
        edges = {f"{a} to {b}" for a, ends in TRANSITIONS.items() for b in ends}
        assert edges - set(reached) == set(), "drawn edges that no schedule took"
