"""In whatever order evidence and releases come, a release covers what was dated before it, and no more."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mail_service.domain.address import keyed_hash
from mail_service.domain.suppression import Listed, ReleaseRule, SuppressionReason
from mail_service.runtime import Runtime
from mail_service.store import ses_list, suppressions
from mail_service.store.suppressions import Suppression
from mail_service.workflows import observe, operate
from tests.conftest import Sql

_serial = count(1)

EVIDENCE = st.tuples(
    st.sampled_from(["event", "ses-list"]),
    st.sampled_from([SuppressionReason.BOUNCE, SuppressionReason.COMPLAINT]),
    st.integers(0, 500),  # seconds before the moment at which it comes
)
STEPS = st.lists(
    st.one_of(EVIDENCE, st.just("release"), st.integers(1, 300).map(float)), min_size=1, max_size=10
)


@dataclass
class Model:
    """One mailbox, as the promise has it."""

    releases: list[datetime] = field(default_factory=list[datetime])
    standing: SuppressionReason | None = None

    def hear(self, reason: SuppressionReason, at: datetime) -> None:
        """Evidence suppresses or strengthens, unless a release came after it was dated."""
        if any(release >= at for release in self.releases):
            return
        order = list(SuppressionReason)
        if self.standing is None or order.index(reason) > order.index(self.standing):
            self.standing = reason


def hear(rt: Runtime, source: str, address: str, reason: SuppressionReason, at: datetime) -> None:
    """Let evidence come, as a matched event or as an entry of SES's list."""
    hashed = keyed_hash(rt.address_key, address)
    with rt.db.transaction() as tx:
        if source == "event":
            suppressions.suppress(
                tx,
                new_id=rt.new_id(),
                address_hash=hashed,
                address=address,
                reason=reason,
                source=source,
                evidence_at=at,
            )
        else:
            entry = Listed(address=address, reason=reason, at=at)
            ses_list.take_in(tx, {hashed: (rt.new_id(), entry)})


def standing(rt: Runtime, address: str) -> Suppression | None:
    """Give the row that stands."""
    rows = observe.list_suppressions(
        rt, address=address, reason=None, active=True, after=None, limit=5
    ).items
    assert len(rows) <= 1
    return rows[0] if rows else None


@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=STEPS)
def test_old_evidence_never_undoes_a_release_and_newer_evidence_always_counts(
    rt: Runtime, sql: Sql, steps: list[object]
) -> None:
    address = f"m{next(_serial)}@example.com"
    model = Model()
    for step in steps:
        sql.advance(1)
        if isinstance(step, float):
            sql.advance(step)
        elif step == "release":
            row = standing(rt, address)
            if row is not None:
                rule = ReleaseRule.CONSENT_RENEWED
                operate.release(rt, row.id, rule=rule, reason="test", confirmed=True, by="test")
                (last,) = sql(
                    "SELECT released_at FROM mail_service.suppressions WHERE id = %s", row.id
                )
                model.releases.append(last["released_at"])
                model.standing = None
        else:
            source, reason, age = step  # pyright: ignore
            at = sql.one("SELECT mail_service.clock()") - timedelta(seconds=age)
            hear(rt, source, address, reason, at)
            model.hear(reason, at)
        row = standing(rt, address)
        assert (row.reason if row else None) == model.standing
        if row is not None:
            assert row.returns == len(model.releases)


@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    ages=st.lists(EVIDENCE, min_size=1, max_size=5),
    order=st.randoms(use_true_random=False),
)
def test_after_a_release_the_order_in_which_evidence_comes_does_not_matter(
    rt: Runtime, sql: Sql, ages: list[tuple[str, SuppressionReason, int]], order: object
) -> None:
    now = sql.one("SELECT mail_service.clock()")
    ends: list[object] = []
    shuffled = list(ages)
    order.shuffle(shuffled)  # pyright: ignore
    mailboxes = [f"m{next(_serial)}@example.com" for _ in range(2)]
    for mailbox in mailboxes:
        hear(rt, "event", mailbox, SuppressionReason.BOUNCE, now)
    sql.advance(250)
    for mailbox in mailboxes:
        row = standing(rt, mailbox)
        assert row is not None
        rule = ReleaseRule.OPERATOR_ERROR
        operate.release(rt, row.id, rule=rule, reason="test", confirmed=False, by="test")
    sql.advance(250)
    later = sql.one("SELECT mail_service.clock()")
    for mailbox, evidence in zip(mailboxes, (ages, shuffled), strict=True):
        for source, reason, age in evidence:
            hear(rt, source, mailbox, reason, later - timedelta(seconds=age))
        row = standing(rt, mailbox)
        ends.append(row and (row.reason, row.returns))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("source", ["event", "ses-list"])
def test_evidence_that_a_release_covers_does_not_strengthen_what_came_after(
    rt: Runtime, sql: Sql, source: str
) -> None:
    address = "ada@example.com"
    old = sql.one("SELECT mail_service.clock()")
    sql.advance(10)
    row, _ = operate.suppress(rt, address=address, note=None, by="test")
    sql.advance(10)
    rule = ReleaseRule.OPERATOR_ERROR
    operate.release(rt, row.id, rule=rule, reason="test", confirmed=False, by="test")
    sql.advance(10)
    operate.suppress(rt, address=address, note=None, by="test")
    hear(rt, source, address, SuppressionReason.COMPLAINT, old)
    again = standing(rt, address)
    assert again is not None
    assert again.reason is SuppressionReason.MANUAL
    sql.advance(10)
    hear(rt, source, address, SuppressionReason.COMPLAINT, sql.one("SELECT mail_service.clock()"))
    stronger = standing(rt, address)
    assert stronger is not None
    assert stronger.reason is SuppressionReason.COMPLAINT
