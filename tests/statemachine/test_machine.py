"""Random schedules: no step breaks a promise, and after the faults everything comes to its end.

The seed is fixed, so that every run is the same. More, and others:
``STATE_MACHINE_EXAMPLES=100 STATE_MACHINE_STEPS=100 STATE_MACHINE_SEED=2``.
"""

import os
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.statemachine.auditor import Broken
from tests.statemachine.machine import Machine
from tests.statemachine.stories import STORIES
from tests.statemachine.world import World

EXAMPLES = int(os.environ.get("STATE_MACHINE_EXAMPLES", "2"))  # for each story
STEPS = int(os.environ.get("STATE_MACHINE_STEPS", "20"))
SEED = int(os.environ.get("STATE_MACHINE_SEED", "1"))
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


def broken_by(error: BaseException) -> Iterator[str]:
    """Give the promises that an error is about; else what kind it is of."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        for one in group.exceptions:
            yield from broken_by(one)
    elif isinstance(error, Broken):
        yield from error.promises
    else:
        yield type(error).__name__


@pytest.mark.timeout(600 + EXAMPLES * STEPS // 5)
@pytest.mark.parametrize("story", sorted(STORIES))
def test_no_schedule_breaks_a_promise(new_world: Callable[[], World], story: str) -> None:
    worlds: list[World] = []

    def begin() -> Machine:
        worlds.append(new_world())
        return Machine(worlds[-1], story)

    try:
        factory: Any = seed(SEED)(begin)  # a function that gives one will do as well as the class
        run_state_machine_as_test(factory, settings=SIZE)
    except BaseException as error:
        # One line for whoever proves this test with seeded bugs (sensitivity.py).
        print(f"\nbroken: {' '.join(sorted(set(broken_by(error))))} in {len(worlds)} examples")  # noqa: T201
        raise
