"""Schedules that once broke a promise, each as a test of its own."""

import pytest

from mail_service.domain.deciding import Decision
from tests.statemachine.recovery import come_to_an_end
from tests.statemachine.world import World


def test_two_holds_that_stop_the_same_mail_do_not_wait_for_each_other(world: World) -> None:
    """Each left the other's mail alone, so neither was ever probed and nothing went out again."""
    world.write((0,))
    world.write((2,))
    world.send_through(0, ["held sender", "held account"])
    world.look()
    come_to_an_end(world, seed=1)


def test_an_account_hold_over_mail_without_its_template_ends_when_the_template_is_back(
    world: World,
) -> None:
    """As above, with the hold that a bad deploy opens."""
    world.write((0,))
    world.write((2,))
    world.take(0, 2)
    world.call(0, "held account")
    world.templates_gone = True
    world.call(0, "accepted")
    world.record(0)
    world.look()
    come_to_an_end(world, seed=1)


def test_a_probe_that_could_not_be_composed_says_nothing_about_the_account(world: World) -> None:
    """Its template was missing, so SES was never asked; the hold was cleared all the same."""
    world.write((0,))
    world.send_through(0, ["held account"])
    world.advance(61)
    world.templates_gone = True
    world.take_probes(0)
    world.call(0, "accepted")
    world.record(0)
    world.look()
    held = world.auditor("SELECT scope FROM mail_service.holds WHERE cleared_at IS NULL")
    assert {row["scope"] for row in held} == {"account", "template"}
    come_to_an_end(world, seed=1)


@pytest.mark.parametrize("late", ["accepted", "lost", "deferred", "refused"])
@pytest.mark.parametrize("newest", ["accepted", "lost", "deferred", "refused", "given back"])
def test_two_results_of_one_email_in_one_wave_count_one_after_the_other(
    world: World, late: str, newest: str
) -> None:
    """Both were judged by what stood before: a late acceptance beside a lease given back was lost."""
    world.write((2,))
    world.take(0, 1)
    world.call(0, late)
    world.advance(75)
    world.sweep()
    world.operator.resolve(0, Decision.RESEND)
    world.take(0, 1)
    if newest == "given back":
        world.give_back(0)
    else:
        world.call(0, newest)
        world.record(0)
    world.look()
    world.record(0)
    world.look()
    assert world.workers[0].results == []
    come_to_an_end(world, seed=1)
