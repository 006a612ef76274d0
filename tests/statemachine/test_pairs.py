"""The same history twice: with repeated events, or with a crash in it, it comes to the same end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.statemachine.drawn import request
from tests.statemachine.postman import KINDS
from tests.statemachine.provider import OUTCOMES
from tests.statemachine.recovery import come_to_an_end
from tests.statemachine.world import World

SIZE = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    print_blob=True,
    database=None,
    # The world is begun anew by the example itself, and each is two of them on a real PostgreSQL.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

requests = st.lists(
    request.map(lambda asked: {k: asked[k] for k in asked if k != "soon"}), min_size=1, max_size=3
)
happenings = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, len(KINDS) - 1),
        st.sampled_from(["tag", "message id", "header"]),
        st.integers(0, 2),
    ),
    max_size=6,
)
outcomes = st.lists(st.sampled_from([o for o in OUTCOMES if ", said" not in o]), max_size=6)

_END = """
SELECT o.id, o.state, o.epoch, (SELECT array_agg(a.state ORDER BY a.number)
                                FROM mail_service.send_attempts a WHERE a.email_id = o.id) AS calls
FROM mail_service.email_outbox o ORDER BY o.dedup_key
"""

_FACTS = """
SELECT o.dedup_key, r.position, r.delivered_at IS NOT NULL AS delivered, r.bounce_type,
       r.bounce_subtype, r.complained_at IS NOT NULL AS complained, r.complaint_type,
       r.delayed_at IS NOT NULL AS delayed, r.rejected_at IS NOT NULL AS rejected
FROM mail_service.email_recipients r JOIN mail_service.email_outbox o ON o.id = r.email_id
ORDER BY o.dedup_key, r.position
"""

_STOPS = "SELECT encode(address_hash, 'hex') AS h, reason FROM mail_service.suppressions ORDER BY 1"


def end_of(world: World) -> list[Any]:
    """Give what an operator would see at the end, without times and ids."""
    emails = [{k: v for k, v in row.items() if k != "id"} for row in world.auditor(_END)]
    return json.loads(
        json.dumps([emails, world.auditor(_FACTS), world.auditor(_STOPS)], default=str)
    )


@pytest.mark.timeout(600)
@SIZE
@given(requests=requests, outcomes=outcomes, happenings=happenings, times=st.integers(2, 4))
def test_repeated_events_change_nothing(
    new_world: Callable[[], World],
    requests: list[dict[str, Any]],
    outcomes: list[str],
    happenings: list[tuple[int, int, str, int]],
    times: int,
) -> None:
    def end(repeats: int) -> list[Any]:
        world = new_world()
        for asked in requests:
            world.write(**asked)
        world.send_through(0, outcomes)
        for pick, kind, by, whom in happenings:
            told = world.postman.happen(pick, kind, by=by, whom=whom)
            for _ in range(repeats):
                if told:
                    world.postman.bring(told)
            world.look()
        come_to_an_end(world, seed=1)
        return end_of(world)

    assert end(times) == end(1)


@pytest.mark.timeout(600)
@SIZE
@given(requests=requests, happenings=happenings, step=st.integers(0, 2))
def test_a_crash_around_a_call_that_was_accepted_changes_nothing(
    new_world: Callable[[], World],
    requests: list[dict[str, Any]],
    happenings: list[tuple[int, int, str, int]],
    step: int,
) -> None:
    """Its event proves it, be it before the lease ran out, after it, or after the sweep."""

    def end(crash: bool) -> list[Any]:
        world = new_world()
        for asked in requests:
            world.write(**asked)
        world.take(0, len(requests))
        for _ in requests:
            world.call(0, "accepted")
        if crash:
            world.crash(0)
            world.advance(61 if step else 0)
            if step == 2:
                world.sweep()
        world.record(0)
        world.look()
        for pick, kind, by, whom in happenings:
            told = world.postman.happen(pick, kind, by=by, whom=whom)
            if told:
                world.postman.bring(told)
            world.look()
        come_to_an_end(world, seed=1)
        return end_of(world)

    assert end(True) == end(False)
