"""In whatever order evidence and releases come, a release covers what was dated before it, and no more."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mail_service.domain.address import keyed_hash
from mail_service.domain.suppression import Listed, ReleaseRule, SesListState, SuppressionReason
from mail_service.runtime import Runtime
from mail_service.store import ses_changes, ses_list, suppressions
from mail_service.store.suppressions import Suppression
from mail_service.workflows import observe, operate
from tests.conftest import Sql

_serial = count(1)

EVIDENCE = st.tuples(
    st.sampled_from(["event", "stopped by SES's list", "entry of SES's list"]),
    st.sampled_from([SuppressionReason.BOUNCE, SuppressionReason.COMPLAINT]),
    st.integers(0, 500),  # seconds before the moment at which it comes
)
STEPS = st.lists(
    st.one_of(EVIDENCE, st.sampled_from(["release", "tell SES"]), st.integers(1, 300).map(float)),
    min_size=1,
    max_size=10,
)


@dataclass
class Release:
    """One release, and since when SES's list is known not to have the mailbox, if it is."""

    at: datetime
    gone: datetime | None = None
    kept: bool = False

    def covers(self, source: str, at: datetime) -> bool:
        """What SES's list stopped counts once the entry is gone there; all else by its own date."""
        if source == "stopped by SES's list" and not self.kept:
            return self.gone is None or self.gone >= at
        return self.at >= at


@dataclass
class Model:
    """One mailbox, as the promise has it."""

    releases: list[Release] = field(default_factory=list[Release])
    standing: SuppressionReason | None = None

    def hear(self, source: str, reason: SuppressionReason, at: datetime) -> None:
        """Evidence suppresses or strengthens, unless a release came after it was dated."""
        if any(release.covers(source, at) for release in self.releases):
            if source == "entry of SES's list" and self.standing is None:
                last = self.releases[-1]
                last.gone, last.kept = None, False  # to be deleted, again
            return
        order = list(SuppressionReason)
        if self.standing is None or order.index(reason) > order.index(self.standing):
            self.standing = reason


def hear(rt: Runtime, source: str, address: str, reason: SuppressionReason, at: datetime) -> None:
    """Let evidence come, as a matched event or as an entry of SES's list."""
    hashed = keyed_hash(rt.address_key, address)
    with rt.db.transaction() as tx:
        if source != "entry of SES's list":
            suppressions.suppress(
                tx,
                new_id=rt.new_id(),
                address_hash=hashed,
                address=address,
                reason=reason,
                source=source,
                by_their_list=source != "event",
                evidence_at=at,
            )
        else:
            entry = Listed(address=address, reason=reason, at=at)
            ses_list.take_in(tx, {hashed: (rt.new_id(), entry)})


def tell_ses(rt: Runtime, address: str, model: Model) -> None:
    """Let every delete at SES's list be done that is outstanding."""
    while True:
        with rt.db.transaction() as tx:
            change = ses_changes.next_change(tx)
        if change is None:
            return
        outcome = SesListState.KEPT if change.stands_again else SesListState.DELETED
        with rt.db.transaction() as tx:
            ses_changes.done(tx, change, outcome)
            now = tx.now
        mine = change.address_hash == keyed_hash(rt.address_key, address)
        for release in model.releases if mine else ():
            if release.gone is None and not release.kept:
                release.kept = change.stands_again
                release.gone = now


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
                model.releases.append(Release(at=last["released_at"]))
                model.standing = None
        elif step == "tell SES":
            tell_ses(rt, address, model)
        else:
            source, reason, age = step  # pyright: ignore
            at = sql.one("SELECT mail_service.clock()") - timedelta(seconds=age)
            hear(rt, source, address, reason, at)
            model.hear(source, reason, at)
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


@pytest.mark.parametrize("source", ["event", "entry of SES's list"])
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
