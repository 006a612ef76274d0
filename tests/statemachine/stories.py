"""Chains of events that chance alone would seldom make, in moments between which anything may happen.

Random steps rarely meet on one email: that a lease runs out, a person sends again, another worker
claims and then the first one answers is six steps in one order. A story takes them; each ``yield`` is
a place where the schedule goes on with something else. A story that was overtaken does nothing odd:
its steps find nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from mail_service.domain.deciding import Decision
from tests.statemachine.teller import CALL_IS_OVER, LEASE_IS_OVER, QUIET_FOR_LONG, Teller


def a_late_answer(t: Teller, decision: Decision, answer: str = "") -> Iterator[None]:
    """A worker is stopped with its answer, the email goes another way, and then the worker goes on."""
    t.write()
    t.take()
    yield
    t.call(answer or t.answer)
    slow = next(
        (w for w in t.world.workers if any(r.row.email_id == t.email for r in w.results)),
        t.world.workers[t.who],
    )
    slow.paused = True
    yield
    t.wait(CALL_IS_OVER)
    t.decide(decision)
    yield
    t.take(1)
    t.take(2)
    yield
    slow.paused = False
    t.record()
    yield
    t.send("accepted")


def a_proof_before_the_answer(t: Teller) -> Iterator[None]:
    """SES's event comes while the call still runs into its time limit."""
    t.write()
    t.take()
    yield
    t.call("accepted, no answer")
    t.hear()
    yield
    t.record()


def a_proof_of_a_doubt(t: Teller) -> Iterator[None]:
    """A call runs into its time limit, and SES's event says that it was accepted."""
    t.write()
    t.send("accepted, no answer")
    yield
    t.hear()


def a_suppression_while_it_waits(t: Teller) -> Iterator[None]:
    """Somebody is suppressed after the claim, and the worker gets to the call late."""
    t.write()
    t.take()
    yield
    t.suppress()
    t.world.advance(2)
    t.call("accepted")
    t.record()


def a_policy(t: Teller) -> Iterator[None]:
    """One email is lost again and again, and policy may send it again."""
    t.write(on_ambiguous="resend")
    for _ in range(3):
        t.send("lost")
        yield
        for told in list(t.world.provider.events):  # policy waits where no events arrive
            if told.kind == "Send":
                t.world.postman.bring(told)
        t.wait(QUIET_FOR_LONG)


def an_old_page(t: Teller, decision: Decision) -> Iterator[None]:
    """A page about the first doubt is still open when there is a second one."""
    t.write()
    t.send("lost")
    page = t.email and t.world.operator.page_of(t.email)
    t.world.advance(CALL_IS_OVER)
    t.decide(Decision.RESEND)
    yield
    t.send("lost")
    yield
    t.world.advance(CALL_IS_OVER)
    if page:
        t.world.operator.resolve_on(page, decision)


def a_decision_in_haste(t: Teller, decision: Decision) -> Iterator[None]:
    """A person decides, and changes their mind, as soon as the doubt is there."""
    t.write()
    t.send(t.answer)
    yield
    t.decide(decision)
    t.requeue()
    yield
    t.send("accepted")


def a_change_of_mind(t: Teller) -> Iterator[None]:
    """A lease ran out while its call may still run; a person gives the email up, and then does not."""
    t.write()
    t.take()
    yield
    t.call(t.answer)
    t.forget()
    t.wait(LEASE_IS_OVER)
    t.decide(Decision.ABANDON)
    t.requeue()
    yield
    t.send("accepted")


def a_sign_up_and_a_fault(t: Teller, nth: int) -> Iterator[None]:
    """The database goes away in answer to a commit of a sign-up; the caller asks again."""
    t.world.commits.lose(nth, after=False)
    t.world.open_account(3, t.who, changed=False)
    yield
    t.world.commits.heal()
    t.world.open_account(3, t.who, changed=False)
    yield
    t.world.open_account(3, t.who, changed=True)


def a_key_twice(t: Teller) -> Iterator[None]:
    """A caller uses a key again, for the same email and for another one."""
    t.write()
    yield
    t.world.write_again(-1, changed=False)
    t.world.write_again(-1, changed=True)


def a_lost_probe(t: Teller) -> Iterator[None]:
    """The one email that may try whether a hold is over is lost with its worker."""
    t.write(on_ambiguous="hold")
    t.send(t.answer if t.answer.startswith("held") else "held account")
    t.world.write((0,))
    yield
    t.world.advance(61)
    t.world.take_probes(t.who)
    yield
    t.world.crash(t.who)
    t.wait(CALL_IS_OVER)


def two_holds(t: Teller) -> Iterator[None]:
    """Two holds stop the same mail."""
    t.write()
    t.world.write((0,), priority=9)
    t.world.send_through(t.who, ["held sender", "held account"])
    yield
    t.world.advance(61)
    t.world.take_probes(t.who)


def lost_answers_to_commits(t: Teller, after: bool) -> Iterator[None]:
    """The database goes away while a claim is committed, and while its result is."""
    t.write()
    t.world.write((0,))  # what a claim that is made again would take
    t.world.commits.lose(1, after=after)
    t.world.take(t.who, 1)
    yield
    t.take()
    t.call("accepted")
    t.world.commits.lose(1, after=after)
    t.record()
    yield
    t.record()


def an_event_before_its_message_id(t: Teller, kind: int) -> Iterator[None]:
    """What became of an email is told by MessageId alone, before we have saved that."""
    t.write()
    t.take()
    yield
    t.call("accepted")
    if t.world.provider.accepted:
        event = t.world.postman.happen(-1, kind, by="message id", whom=0)
        if event is not None:
            t.world.postman.bring(event)
    yield
    t.record()


def evidence_for_an_earlier_epoch(t: Teller, end: str) -> Iterator[None]:
    """A doubt is decided, the email goes on, and only then SES's event about the first call comes."""
    t.write()
    t.doubt_and_decide(
        "accepted, no answer", Decision.ABANDON if end == "abandoned" else Decision.RESEND
    )
    yield
    if end == "cancelled" and t.email:
        t.world.operator.cancel_this(t.email)
    elif end == "suppressed":
        t.suppress()
        t.take()
    elif end == "sending":
        t.take()
    yield
    t.hear()
    yield
    t.call(t.answer)
    t.record()


def a_broken_word(t: Teller, outcome: str) -> Iterator[None]:
    """SES takes an email and says that it doesn't."""
    t.write()
    t.send(outcome)
    yield
    t.hear()


def another_try(t: Teller) -> Iterator[None]:
    """What was refused, or stopped for its recipient's sake, is sent again by a person."""
    t.suppress()
    t.write()
    t.take()
    yield
    t.release()
    for outcome in ("refused", "accepted"):
        t.requeue(later=100_000)
        yield
        t.send(outcome)


def a_mailbox_that_comes_back(t: Teller, kind: int) -> Iterator[None]:
    """A suppression is lifted, and then comes the event of before that would have made it."""
    t.write()
    t.send("accepted")
    event = t.world.postman.happen(-1, kind, by="tag", whom=0)
    t.world.advance(2)
    t.suppress()
    yield
    t.release()
    yield
    if event is not None:
        t.world.postman.bring(event)


def refusals_to_the_end(t: Teller) -> Iterator[None]:
    """An email is refused for now, until it has used up its tries."""
    t.write()
    for _ in range(4):
        t.send("deferred")
        yield
        t.world.advance(610)


def too_late(t: Teller) -> Iterator[None]:
    """An email has to be gone soon, and nobody is there; later a person gives it more time."""
    t.write(soon=20)
    yield
    t.world.advance(31)
    t.take()
    yield
    t.requeue(later=1000)
    t.send(t.answer)


DELIVERY, BOUNCE, PERSONAL = 1, 2, 5  # places in KINDS

STORIES: dict[str, Callable[[Teller], Iterator[None]]] = {
    **{
        f"a late answer, {d.value}": partial(a_late_answer, decision=d)
        for d in (Decision.RESEND, Decision.ABANDON)
    },
    "a late acceptance, resend": partial(
        a_late_answer, decision=Decision.RESEND, answer="accepted"
    ),
    "a proof before the answer": a_proof_before_the_answer,
    "a proof of a doubt": a_proof_of_a_doubt,
    "a suppression while it waits": a_suppression_while_it_waits,
    "a policy": a_policy,
    "an old page, resend": partial(an_old_page, decision=Decision.RESEND),
    "an old page, accepted": partial(an_old_page, decision=Decision.ACCEPTED),
    **{f"haste, {d.value}": partial(a_decision_in_haste, decision=d) for d in Decision},
    "a change of mind": a_change_of_mind,
    "a sign-up and a fault": partial(a_sign_up_and_a_fault, nth=1),
    "a sign-up and a later fault": partial(a_sign_up_and_a_fault, nth=2),
    "a key twice": a_key_twice,
    "a lost probe": a_lost_probe,
    "two holds": two_holds,
    "a lost commit": partial(lost_answers_to_commits, after=False),
    "a lost answer to a commit": partial(lost_answers_to_commits, after=True),
    "a delivery before its MessageId": partial(an_event_before_its_message_id, kind=DELIVERY),
    "a bounce before its MessageId": partial(an_event_before_its_message_id, kind=BOUNCE),
    **{
        f"earlier evidence, {end}": partial(evidence_for_an_earlier_epoch, end=end)
        for end in ("pending", "sending", "cancelled", "suppressed", "abandoned")
    },
    "a broken word, refused": partial(a_broken_word, outcome="accepted, said refused"),
    "a broken word, deferred": partial(a_broken_word, outcome="accepted, said deferred"),
    "another try": another_try,
    "an old bounce after a release": partial(a_mailbox_that_comes_back, kind=BOUNCE),
    "an old complaint after a release": partial(a_mailbox_that_comes_back, kind=PERSONAL),
    "refusals to the end": refusals_to_the_end,
    "too late": too_late,
}
"""Each story by its name."""
