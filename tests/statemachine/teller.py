"""Who tells a story: the steps of one email, in the world of everybody else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from mail_service.domain.deciding import Decision
from tests.statemachine.provider import Told
from tests.statemachine.world import World

LEASE_IS_OVER = 61.0
CALL_IS_OVER = 75.0
"""Just over lease and call: from then on a person may send again."""

QUIET_FOR_LONG = 901.0
"""Just over RECONCILE_AFTER_SECONDS: from then on policy may."""


@dataclass
class Teller:
    """The story's own email, and what can be done with it. Overtaken, a step finds nothing to do."""

    world: World
    who: int
    answer: str
    """What one call of the story is answered, where the story doesn't say."""
    email: UUID | None = None

    def __post_init__(self) -> None:
        self.address = f"{self.world.name('somebody')}@example.com"

    def write(self, **asked: Any) -> None:
        """Ask for the story's email. It is urgent, so that it is in the next wave."""
        self.email = self.world.write_to((self.address,), priority=9, **asked)

    def take(self, who: int = 0) -> None:
        """Let a worker claim, unless somebody holds the email."""
        if not any(c.row.email_id == self.email for w in self.world.workers for c in w.claims):
            self.world.take((self.who + who) % 3, 20)

    def call(self, outcome: str) -> None:
        """Make the call, if it is to be made."""
        for worker in self.world.workers:
            for claim in worker.claims:
                if claim.row.email_id == self.email and not worker.paused:
                    self.world.call_for(worker, claim, outcome)
                    return

    def record(self) -> None:
        """Let everybody who has something to record do so."""
        for who in range(3):
            self.world.record(who)

    def send(self, outcome: str) -> None:
        """Take, call and record."""
        self.take()
        self.call(outcome)
        self.record()

    def wait(self, seconds: float) -> None:
        """Let time pass, and sweep."""
        self.world.advance(seconds)
        self.world.sweep()

    def decide(self, decision: Decision) -> None:
        """Decide about the email on a fresh page."""
        page = self.email and self.world.operator.page_of(self.email)
        if page:
            self.world.operator.resolve_on(page, decision)

    def suppress(self) -> None:
        """Stop mail to the story's mailbox."""
        self.world.operator.suppress_this(self.address)

    def release(self) -> None:
        """Allow it again, with consent."""
        self.world.operator.release_this(self.address)

    def requeue(self, *, later: float | None = None) -> None:
        """Send the email again, perhaps with a new deadline."""
        if self.email:
            self.world.operator.requeue_this(self.email, later=later)

    def told(self) -> list[Told]:
        """Give what the provider has to tell about the email."""
        rows = self.world.auditor(
            "SELECT request_tag AS tag FROM mail_service.send_attempts WHERE email_id = %s",
            self.email,
        )
        tags = {row["tag"] for row in rows}
        return [t for t in self.world.provider.events if t.call.tag in tags and t.honest]

    def hear(self) -> None:
        """Bring all that was told about the email."""
        for told in self.told():
            self.world.postman.bring(told)

    def doubt_and_decide(self, outcome: str, decision: Decision) -> None:
        """Lose the worker after its call, and decide about the doubt when it may be decided."""
        self.take()
        self.call(outcome)
        self.forget()
        self.wait(CALL_IS_OVER)
        self.decide(decision)

    def forget(self) -> None:
        """Kill whoever has the answer."""
        for worker in self.world.workers:
            worker.results = [r for r in worker.results if r.row.email_id != self.email]
