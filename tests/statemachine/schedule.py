"""How methods become rules, and when a rule is possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from hypothesis.stateful import Rule, RuleBasedStateMachine, RuleStrategy, precondition, rule
from hypothesis.strategies import SearchStrategy

Scheduled = TypeVar("Scheduled", bound=RuleBasedStateMachine)


class CoreAlwaysOn(RuleStrategy):
    """Hypothesis's choice of rules, which switches off only what is not core."""

    def _rule_is_enabled(self, r: Rule) -> bool:
        if getattr(r.function, "core", False):
            return self.is_valid(r)
        return super()._rule_is_enabled(r)  # pyright: ignore[reportUnknownMemberType]


def step(
    often: int = 1,
    when: Callable[[Any], bool] = lambda machine: True,
    at_most: int = 1000,
    core: bool = False,
    **given: SearchStrategy[Any],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Mark a method as a rule that stands there so often, and is taken at most so often.

    The bound keeps an example in which few rules are switched on from being filled by one of them.
    """

    def mark(function: Callable[..., None]) -> Callable[..., None]:
        function.plan = (often, when, at_most, core, given)  # type: ignore[attr-defined]
        return function

    return mark


def scheduled(machine: type[Scheduled]) -> type[Scheduled]:
    """Make the marked methods of a machine its rules; after each, every promise is checked."""
    for name, function in list(vars(machine).items()):
        if not hasattr(function, "plan"):
            continue
        often, when, at_most, core, given = function.plan
        for copy in range(often):
            named = name if copy == 0 else f"{name}_{copy + 1}"
            made: Any = rule(**given)(_looking(function, name, named, core))  # pyright: ignore
            setattr(machine, named, precondition(_possible(name, when, at_most))(made))  # pyright: ignore
    return machine


def _possible(name: str, when: Callable[[Any], bool], at_most: int) -> Callable[[Any], bool]:
    return lambda machine: machine.taken[name] < at_most and when(machine)


def _looking(
    function: Callable[..., None], name: str, named: str, core: bool
) -> Callable[..., None]:
    def do(machine: Any, **given: Any) -> None:
        machine.taken[name] += 1
        try:
            function(machine, **given)
        except Exception:
            machine.world.look()  # a promise that was broken before says more than what came of it
            raise
        machine.world.look()

    do.__name__ = named
    do.core = core  # type: ignore[attr-defined]
    return do


def claimed(machine: Any) -> bool:
    return any(w.claims for w in machine.world.workers)


def answered(machine: Any) -> bool:
    return any(w.results for w in machine.world.workers)


def at_work(machine: Any) -> bool:
    return claimed(machine) or answered(machine)


def told(machine: Any) -> bool:
    return bool(machine.world.provider.events)


def untold(machine: Any) -> bool:
    return bool(machine.stories)


def there(*what: str) -> Callable[[Any], bool]:
    """Give whether one of these is there."""
    return lambda machine: not machine.world.auditor.there.isdisjoint(what)
