"""One shop's mail in small: workers, callers, an operator, a provider, time. Its methods are the steps.

Each step is one thing that can happen between two commits; who calls them owns the schedule. A step
that has nothing to do does nothing. After each, :meth:`World.look` checks every promise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from uuid import UUID

from mail_service.domain.outcomes import Held, Refused, Released
from mail_service.errors import RequestRefused, Unavailable
from mail_service.runtime import Runtime
from mail_service.workflows import (
    dispatch,
    idempotency,
    reconcile,
    record,
    registration,
    retain,
    submit,
)
from mail_service.workflows.dispatch import Claim, Ended
from tests.statemachine.auditor import Auditor, require
from tests.statemachine.faults import HONEST_PROVIDER_NEVER, Clock, Commits, Log
from tests.statemachine.operator import Operator
from tests.statemachine.postman import Postman
from tests.statemachine.provider import Provider

Answer = TypeVar("Answer")

ADDRESSES = tuple(f"{name}@example.com" for name in ("ada", "ADA", "bo", "cy"))
"""Two of them are one mailbox."""

NAME = "name-canary"
"""A person's name: never to be seen where it does not belong."""


class NoTemplates:
    """A deploy that forgot the templates."""

    def get(self, name: str) -> None:
        """Give none."""


@dataclass
class Worker:
    """What one worker process holds in memory; a crash takes it."""

    claims: list[Claim] = field(default_factory=list)
    results: list[Ended] = field(default_factory=list)
    paused: bool = False
    """Stopped by its platform with what it holds; it goes on later as if nothing had been."""


class World:
    """Everything there is, at one moment of one schedule."""

    def __init__(
        self, rt: Runtime, auditor: Auditor, commits: Commits, clock: Clock, log: Log
    ) -> None:
        self.provider = Provider(auditor)
        self.rt = replace(rt, mailer=self.provider, read_quota=self.provider.quota)
        self.auditor = auditor
        self.commits = commits
        self.clock = clock
        self.log = log
        self.workers = [Worker(), Worker(), Worker()]
        self.written: list[submit.EmailRequest] = []
        self.templates_gone = False
        self.addresses = ADDRESSES
        self._serial = 0
        self.operator = Operator(self)
        self.postman = Postman(self)

    def try_to(self, do: Callable[[], Answer]) -> Answer | None:
        """Do it as an edge of the product would: a refusal or a fault is an answer, not an accident."""
        try:
            return do()
        except (RequestRefused, Unavailable):
            return None

    def look(self) -> None:
        """Check every promise that can be checked at any time."""
        self.auditor.check()
        odd = HONEST_PROVIDER_NEVER & set(self.log.alarms)
        if self.provider.contradicted:
            odd -= {"accepted_after_refusal"}
        if "ambiguous" in self.auditor.there:
            self.operator.open_pages()
        require("alarm", odd, "an honest provider never causes this")

    def name(self, kind: str) -> str:
        """Give a name that was not there before."""
        self._serial += 1
        return f"{kind}-{self._serial}"

    def write(self, to: tuple[int, ...], **request: Any) -> UUID | None:
        """Ask for one email to some of the usual addresses."""
        return self.write_to(tuple(ADDRESSES[n] for n in to), **request)

    def write_to(
        self, to: tuple[str, ...], *, soon: float | None = None, **request: Any
    ) -> UUID | None:
        """Ask for one email under a new key; it may have to be gone soon. Gives its id, if it is told."""
        if soon is not None:
            request["not_after"] = self.now() + timedelta(seconds=soon)
        asked = submit.EmailRequest(
            dedup_key=self.name("key"),
            template="welcome-v1",
            to=to,
            data={"name": NAME},
            **request,
        )
        return self._ask(asked)

    def write_again(self, pick: int, *, changed: bool) -> None:
        """Use a key a second time, with the same request or another one."""
        if self.written:
            asked = self.written[pick % len(self.written)]
            self._ask(replace(asked, data={"name": self.name(NAME)}) if changed else asked)

    def _ask(self, asked: submit.EmailRequest) -> UUID | None:
        self.written.append(asked)

        def do() -> submit.Submitted:
            write = submit.submit_email(self.rt, asked, actor="caller")
            return self.rt.db.transact(write, found=write.found)

        done = self.try_to(do)
        if done is None:
            return None
        payload = repr((asked, asked.to, asked.data))
        self.auditor.note_answer(asked.dedup_key, payload, done.email.email.id)
        return done.email.email.id

    def open_account(self, address: int, key: int, *, changed: bool) -> None:
        """Sign somebody up under an idempotency key that may have been used before."""
        body = f"{address}{changed}"
        name = f"{key} of day {self.clock.ahead // 86400}"  # answers are kept for a day
        asked = registration.AccountRequest(
            email=ADDRESSES[address], name=NAME if changed else None
        )

        def present(opened: registration.Opened) -> idempotency.Answer:
            return idempotency.Answer(status=201, text=str(opened.email.email.id))

        answer = self.try_to(
            lambda: idempotency.answer(
                self.rt,
                idempotency.Key(
                    api_key_id=UUID(int=0), route="accounts", key=name, body=body.encode()
                ),
                registration.open_account(self.rt, asked, actor="caller"),
                present,
            )
        )
        if answer is not None:
            self.auditor.note_answer(f"sign-up {name}", body, UUID(answer.text))

    # Workers

    def take(self, who: int, limit: int) -> None:
        """Claim what is due."""
        if self.workers[who].paused:
            return
        claims = self.try_to(lambda: dispatch.take(self.rt, limit))
        self.workers[who].claims += claims or []

    def take_probes(self, who: int) -> None:
        """Claim one email for each hold that may be probed."""
        if self.workers[who].paused:
            return
        taken = self.try_to(lambda: dispatch.take_probes(self.rt))
        self.workers[who].claims += taken[0] if taken else []
        self.auditor.note_probes()

    def call(self, pick: int, outcome: str, *, stopped: bool = False) -> None:
        """Make one call that some worker has claimed; it may be stopped just before it."""
        held = [(w, claim) for w in self.workers if not w.paused for claim in w.claims]
        if held:
            worker, claim = held[pick % len(held)]
            self.call_for(worker, claim, outcome, stopped=stopped)

    def call_for(
        self, worker: Worker, claim: Claim, outcome: str, *, stopped: bool = False
    ) -> None:
        """Make this call."""
        self.provider.outcome, self.provider.checked = outcome, not stopped
        ready, back = [claim], []
        if not stopped:
            looked = self.try_to(lambda: dispatch.recheck(self.rt, [claim]))
            if looked is None:
                return
            ready, back = looked
        worker.claims.remove(claim)
        worker.results += back
        for checked in ready:
            worker.results.append(self._send(checked, stopped=stopped))

    def _send(self, claim: Claim, *, stopped: bool) -> Ended:
        rt = replace(self.rt, templates=NoTemplates()) if self.templates_gone else self.rt  # type: ignore[arg-type]
        outgoing = dispatch.compose(rt, claim)
        if isinstance(outgoing, Held | Refused):
            return Ended(row=claim.row, result=outgoing)
        if stopped:  # the process was stopped by the platform after its last look
            return Ended(row=claim.row, result=self.provider.send(outgoing))
        return dispatch.send(rt, claim, outgoing)

    def record(self, who: int) -> None:
        """Write what came of the worker's calls; it keeps what could not be written."""
        worker = self.workers[who]
        if worker.results and not worker.paused:
            left = self.try_to(lambda: record.results(self.rt, worker.results))
            worker.results = worker.results if left is None else left

    def crash(self, who: int) -> None:
        """Kill a worker: what it held is gone."""
        self.workers[who] = Worker()

    def give_back(self, who: int) -> None:
        """Stop a worker in good order: what it has not called is released."""
        worker = self.workers[who]
        if worker.paused:
            return
        worker.results += [Ended(row=c.row, result=Released()) for c in worker.claims]
        worker.claims = []
        self.record(who)

    def send_through(self, who: int, outcomes: list[str]) -> None:
        """Take, call and record in one go."""
        worker = self.workers[who]
        self.take(who, len(outcomes))
        for outcome in outcomes:
            if worker.claims and not worker.paused:
                self.call_for(worker, worker.claims[0], outcome)
        self.record(who)

    # Time and what runs by it

    def now(self) -> datetime:
        """Give the database's time."""
        at: datetime = self.auditor.one("SELECT mail_service.clock()")
        return at.astimezone(UTC)

    def advance(self, seconds: float) -> None:
        """Let time pass, for the database and every process."""
        self.auditor(
            "UPDATE mail_service.test_clock SET ahead = ahead + make_interval(secs => %s)", seconds
        )
        self.clock.ahead += seconds

    def sweep(self) -> None:
        """Sweep; nothing may be left in a call whose time is over (L2)."""
        if self.try_to(lambda: reconcile.sweep(self.rt)) is not None:
            late = self.auditor(
                "SELECT id FROM mail_service.email_outbox WHERE state = 'sending' "
                "AND lease_expires_at < (SELECT min(at) FROM mail_service.heartbeats "
                "WHERE name = 'sweep')"
            )
            require("L2", late, "still sending after a sweep")

    def retain(self) -> None:
        """Run the retention."""
        self.try_to(lambda: retain.run(self.rt))
