"""All stories together take every edge there is, so that the schedules are about every edge."""

from collections.abc import Callable
from itertools import product

from mail_service.domain.states import TRANSITIONS
from tests.statemachine.stories import STORIES
from tests.statemachine.teller import Teller
from tests.statemachine.world import World


def test_the_stories_take_every_drawn_edge(new_world: Callable[[], World]) -> None:
    """What chance may leave out in one run is not left out of every run."""
    reached = new_world().auditor.reached  # of all worlds, one after the other
    for answer, name in product(("refused", "deferred"), sorted(STORIES)):
        world = new_world()
        for _ in STORIES[name](Teller(world, who=0, answer=answer)):
            pass
        world.auditor.note_reached()
    edges = {f"{a} to {b}" for a, ends in TRANSITIONS.items() for b in ends}
    assert edges - set(reached) == set()
