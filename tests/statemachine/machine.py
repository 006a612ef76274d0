"""The schedule: Hypothesis picks each step and what it is given, and replays what it picked.

Every rule stands here as often as it is to be likely. Hypothesis switches each of these copies on or
off for a whole example (swarm testing), save those without which no mail would go, so that weights
and the set of rules differ from one to the next.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from mail_service.domain.deciding import Decision
from tests.statemachine.drawn import (
    answers,
    nth_answer,
    opening,
    pick,
    request,
    seconds,
    story,
    worker,
)
from tests.statemachine.postman import KINDS
from tests.statemachine.recovery import come_to_an_end
from tests.statemachine.schedule import (
    CoreAlwaysOn,
    answered,
    at_work,
    claimed,
    scheduled,
    step,
    there,
    told,
    untold,
)
from tests.statemachine.stories import STORIES
from tests.statemachine.teller import Teller
from tests.statemachine.world import World


@scheduled
class Machine(RuleBasedStateMachine):
    """Steps of one world, begun in the middle of a story; its end is the world's recovery."""

    def __init__(self, world: World, story: str) -> None:
        super().__init__()
        self.world = world
        self.first = story
        self._rules_strategy = CoreAlwaysOn(self)
        self.taken: Counter[str] = Counter()
        self.stories: list[Iterator[None]] = []
        self._fault_before = sys.exc_info()[1]

    def busy(self, worker: int) -> int:
        """Give this worker, or the next that holds something."""
        at_work = [
            n for n, w in enumerate(self.world.workers) if (w.claims or w.results) and not w.paused
        ]
        return at_work[worker % len(at_work)] if at_work else worker

    @initialize(
        paused=st.booleans(),
        resent=st.integers(0, 3),
        answers=answers,
        openings=st.lists(opening, min_size=1, max_size=5),
        who=worker,
        nth=nth_answer,
        at_once=st.sampled_from([True, False]),
    )
    def begin(
        self,
        paused: bool,
        resent: int,
        answers: list[str],
        openings: list[tuple[dict[str, Any], int, int, int, int]],
        who: int,
        nth: int,
        at_once: bool,
    ) -> None:
        self.answers = [*answers, "accepted"]
        for asked, so_far, answer, by, kind in openings:
            self.world.write(**asked)
            if so_far > 0:
                self.world.take(by, 1)
            if so_far > 1:
                self.call(pick=-1, nth_answer=answer, waited=0)
            if so_far > 2:
                self.world.record(by)
            if so_far > 3:
                self.happen(pick=-1, kind=kind, by="tag", whom=0, at_once=True)
            self.world.look()
        self.world.workers[2].paused = paused
        if resent:  # begin with doubts that were decided, while the late answer may still come
            self.world.advance(self.world.rt.settings.lease_seconds + 15)
            self.world.sweep()
            self.world.look()
        for page in range(resent):
            self.world.operator.resolve(page, Decision.RESEND)
        self.world.look()
        self.begin_a_story(story=(self.first, who, nth), at_once=at_once)

    def teardown(self) -> None:
        if sys.exc_info()[1] is self._fault_before:  # no step has failed
            come_to_an_end(self.world, seed=len(self.world.provider.events))

    @step(core=True, often=2, at_most=4, story=story, at_once=st.booleans())
    def begin_a_story(self, story: tuple[str, int, int], at_once: bool) -> None:
        name, who, nth = story
        teller = Teller(self.world, who, self.answers[nth % len(self.answers)])
        told = STORIES[name](teller)
        self.stories.append(told)
        self.world.auditor.reached[f"story of {name}"] += 1
        next(told)
        while at_once and told in self.stories:
            self.world.look()
            self.go_on(pick=-1)

    @step(core=True, often=5, when=untold, pick=pick)
    def go_on(self, pick: int) -> None:
        told = self.stories[pick % len(self.stories)]
        try:
            next(told)
        except StopIteration:
            self.stories.remove(told)

    @step(core=True, often=4, at_most=10, asked=request)
    def write(self, asked: dict[str, Any]) -> None:
        self.world.write(**asked)

    @step(at_most=3, pick=pick, changed=st.booleans())
    def write_again(self, pick: int, changed: bool) -> None:
        self.world.write_again(pick, changed=changed)

    @step(at_most=3, address=st.integers(0, 3), key=st.integers(0, 2), changed=st.booleans())
    def open_account(self, address: int, key: int, changed: bool) -> None:
        self.world.open_account(address, key, changed=changed)

    @step(core=True, often=3, when=there("pending"), worker=worker, limit=st.integers(1, 6))
    def take(self, worker: int, limit: int) -> None:
        self.world.take(worker, limit)

    @step(core=True, often=2, when=there("hold"), worker=worker)
    def take_probes(self, worker: int) -> None:
        self.world.take_probes(worker)

    @step(
        core=True,
        often=4,
        when=claimed,
        pick=pick,
        nth_answer=nth_answer,
        waited=st.sampled_from([0.0, 0.0, 2.0]),
    )
    def call(self, pick: int, nth_answer: int, waited: float) -> None:
        self.world.advance(waited)
        self.world.call(pick, self.answers[nth_answer % len(self.answers)])

    @step(often=2, when=claimed, pick=pick, nth_answer=nth_answer)
    def call_after_a_stop(self, pick: int, nth_answer: int) -> None:
        self.world.call(pick, self.answers[nth_answer % len(self.answers)], stopped=True)

    @step(core=True, often=4, when=answered, worker=worker)
    def record(self, worker: int) -> None:
        self.world.record(self.busy(worker))

    @step(
        core=True,
        often=5,
        worker=worker,
        nth_answers=st.lists(nth_answer, min_size=1, max_size=5),
    )
    def send_through(self, worker: int, nth_answers: list[int]) -> None:
        self.world.send_through(worker, [self.answers[n % len(self.answers)] for n in nth_answers])

    @step(often=2, at_most=6, who=worker, paused=st.booleans())
    def pause(self, who: int, paused: bool) -> None:
        self.world.workers[who].paused = paused

    @step(at_most=5, when=at_work, worker=worker)
    def crash(self, worker: int) -> None:
        self.world.crash(self.busy(worker))

    @step(when=claimed, worker=worker)
    def give_back(self, worker: int) -> None:
        self.world.give_back(self.busy(worker))

    @step(at_most=6, nth=st.integers(1, 3), fault=st.sampled_from(["before", "after", "between"]))
    def lose_a_commit(self, nth: int, fault: str) -> None:
        if fault == "between":
            self.world.auditor.cut_everybody_off()
        else:
            self.world.commits.lose(nth, after=fault == "after")

    @step(core=True, often=3, at_most=12, seconds=seconds, swept=st.booleans())
    def advance(self, seconds: float, swept: bool) -> None:
        self.world.advance(seconds)
        if swept:
            self.world.sweep()

    @step(core=True, at_most=5)
    def sweep(self) -> None:
        self.world.sweep()

    @step(at_most=2)
    def retain(self) -> None:
        self.world.retain()

    @step(at_most=3, gone=st.booleans())
    def deploy(self, gone: bool) -> None:
        self.world.templates_gone = gone

    @step(
        core=True,
        often=2,
        when=told,
        pick=pick,
        kind=st.integers(0, len(KINDS) - 1),
        by=st.sampled_from(["tag", "message id", "header"]),
        whom=st.integers(0, 2),
        at_once=st.booleans(),
    )
    def happen(self, pick: int, kind: int, by: str, whom: int, at_once: bool) -> None:
        event = self.world.postman.happen(pick, kind, by=by, whom=whom)
        if at_once and event is not None:
            self.world.postman.bring(event)

    @step(core=True, often=3, at_most=12, when=told, pick=pick)
    def deliver(self, pick: int) -> None:
        self.world.postman.deliver(pick)

    @step(at_most=2, pick=pick, tagged=st.booleans())
    def bring_a_foreign_event(self, pick: int, tagged: bool) -> None:
        self.world.postman.foreign(pick, tagged=tagged)

    @step(at_most=4, when=told, pick=pick, other=pick)
    def bring_an_event_that_disagrees(self, pick: int, other: int) -> None:
        self.world.postman.disagree(pick, other)

    @step(at_most=2, pick=pick)
    def bring_a_forged_request(self, pick: int) -> None:
        self.world.postman.forged(pick)

    @step(core=True, at_most=5, often=2, pick=pick)
    def suppress(self, pick: int) -> None:
        self.world.operator.suppress(pick)

    @step(when=there("suppression"), pick=pick, consent=st.booleans())
    def release(self, pick: int, consent: bool) -> None:
        self.world.operator.release(pick, consent=consent)

    @step(
        core=True,
        often=3,
        when=there("ambiguous"),
        pick=pick,
        decision=st.sampled_from(Decision),
        look=st.booleans(),
    )
    def resolve(self, pick: int, decision: Decision, look: bool) -> None:
        self.world.operator.resolve(pick, decision, look=look)

    @step(
        often=2,
        when=there("failed", "suppressed"),
        pick=pick,
        later=st.sampled_from([None, 1000.0]),
    )
    def requeue(self, pick: int, later: float | None) -> None:
        self.world.operator.requeue(pick, later=later)

    @step(at_most=4, when=there("pending"), pick=pick)
    def cancel(self, pick: int) -> None:
        self.world.operator.cancel(pick)

    @step(at_most=4, when=there("hold"), pick=pick)
    def clear_hold(self, pick: int) -> None:
        self.world.operator.clear_hold(pick)
