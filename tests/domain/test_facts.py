"""Facts merge the same way in any order, however often they are told."""

from datetime import UTC, datetime, timedelta
from functools import reduce
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from mail_service.domain.events import FactKind
from mail_service.domain.facts import KnownFact, RecipientFacts, RecipientStatus, merge, status
from mail_service.domain.suppression import SuppressionReason, reason_in

START = datetime(2026, 11, 29, tzinfo=UTC)
times = st.integers(0, 3).map(lambda n: START + timedelta(seconds=n))
facts = st.builds(
    KnownFact,
    kind=st.sampled_from(FactKind),
    address_hash=st.none(),
    at=times,
    type=st.sampled_from(
        ["Permanent", "Transient", "Undetermined", "New", "not-spam", "abuse", None]
    ),
    subtype=st.sampled_from(["General", "NoEmail", None]),
    action=st.sampled_from(["failed", "delayed", None]),
)


@given(st.lists(facts, max_size=8), st.randoms())
def test_any_order_and_repetition_gives_the_same_facts(
    told: list[KnownFact], order: Random
) -> None:
    again: list[KnownFact] = [*told, *(order.choices(told, k=3) if told else [])]
    order.shuffle(again)
    assert reduce(merge, again, RecipientFacts()) == reduce(merge, told, RecipientFacts())


@given(st.lists(facts, max_size=6), facts)
def test_a_fact_never_makes_another_one_undone(told: list[KnownFact], more: KnownFact) -> None:
    before = reduce(merge, told, RecipientFacts())
    after = merge(before, more)
    for name in ("delivered_at", "bounced_at", "complained_at", "delayed_at", "rejected_at"):
        assert getattr(before, name) is None or getattr(after, name) is not None
    if before.bounce_type == "Permanent":
        assert after.bounce_type == "Permanent"


def fact(kind: FactKind, **what: str) -> KnownFact:
    return KnownFact(kind=kind, address_hash=None, at=START, **what)


def told(
    *said: KnownFact, in_accepted_call: bool = True, left_out: bool = False
) -> RecipientStatus:
    return status(
        reduce(merge, said, RecipientFacts()), in_accepted_call=in_accepted_call, left_out=left_out
    )


def test_the_status_follows_the_stated_order() -> None:
    complained = fact(FactKind.COMPLAINED)
    permanent = fact(FactKind.BOUNCED, type="Permanent")
    rejected = fact(FactKind.REJECTED)
    delivered = fact(FactKind.DELIVERED)
    transient = fact(FactKind.BOUNCED, type="Transient")
    delayed = fact(FactKind.DELAYED)
    assert told(delayed, transient, delivered, rejected, permanent, complained) == "complained"
    assert told(delayed, delivered, rejected, permanent) == "bounced"
    assert told(delayed, transient, delivered, rejected) == "rejected"
    assert told(delayed, transient, delivered) == "delivered"
    assert told(delayed, transient) == "bounced"
    assert told(delayed) == "delayed"
    assert told() == "submitted"
    assert told(in_accepted_call=False) == "waiting"
    assert told(in_accepted_call=False, left_out=True) == "suppressed"


def test_a_report_that_is_no_persons_complaint_is_not_shown_as_one() -> None:
    assert told(fact(FactKind.COMPLAINED, type="not-spam")) == "submitted"
    assert (
        told(fact(FactKind.COMPLAINED, type="auth-failure"), fact(FactKind.DELIVERED))
        == "delivered"
    )


@given(facts)
def test_only_permanent_bounces_and_persons_complaints_suppress(said: KnownFact) -> None:
    reason = reason_in(said)
    if reason is SuppressionReason.BOUNCE:
        assert (said.kind, said.type) == (FactKind.BOUNCED, "Permanent")
        assert said.action != "delayed"
    elif reason is SuppressionReason.COMPLAINT:
        assert said.kind is FactKind.COMPLAINED
        assert said.type not in {"not-spam", "auth-failure"}
    else:
        assert reason is None
