"""A release stands until SES's list no longer has the mailbox; what a person's mailbox does still counts."""

from typing import Any

import pytest

from mail_service.domain.address import keyed_hash
from mail_service.store import erasure, ses_changes
from mail_service.workflows import observe
from tests.steps import bring, look, send_all, ses_event, write_email
from tests.suppressions.lists import Lists

ADA = "ada@example.com"

BY_THEIR_LIST = [
    ("Bounce", {"bounceSubType": "OnAccountSuppressionList"}),
    ("Bounce", {"bounceSubType": "Suppressed"}),
    ("Complaint", {"complaintSubType": "OnAccountSuppressionList"}),
]
GENUINE = [
    ("Bounce", {"bounceSubType": "NoEmail"}),
    ("Complaint", {"complaintFeedbackType": "abuse"}),
]


def released(both: Lists) -> Any:
    """Suppress a mailbox, put it on SES's list, and release it."""
    row = both.add(ADA)
    assert both.carry_out() is None
    both.sql.advance(10)
    both.release(row)
    both.sql.advance(10)
    return row


def told(both: Lists, kind: str, detail: dict[str, Any], *, at: Any = None) -> Any:
    """Send mail to the mailbox and let SES say, now or dated otherwise, what became of it."""
    serial = both.sql.one("SELECT count(*) FROM mail_service.email_outbox")
    email = write_email(both.rt, f"order-{serial}", (ADA,))
    (claim,) = send_all(both.rt)
    at = at or both.sql.one("SELECT mail_service.clock()")
    tag = str(claim.row.attempt_id)
    bring(both.rt, ses_event(kind, tag=tag, message_id=None, at=at.isoformat(), **detail))
    return look(both.rt, email).recipients[0]


def outstanding(both: Lists, how: str) -> None:
    if how == "it failed":
        both.sandbox.knobs(operations={"DeleteSuppressedDestination": "unavailable"})
        assert both.carry_out() is not None
        both.sandbox.knobs(operations={})
    elif how == "it is under way":
        with both.rt.db.transaction() as tx:
            assert ses_changes.next_change(tx) is not None


@pytest.mark.parametrize("how", ["nobody began", "it failed", "it is under way"])
@pytest.mark.parametrize(("kind", "detail"), BY_THEIR_LIST)
def test_what_ses_s_list_stops_before_the_entry_is_deleted_there_does_not_undo_the_release(
    both: Lists, kind: str, detail: dict[str, Any], how: str
) -> None:
    row = released(both)
    outstanding(both, how)
    facts = told(both, kind, detail)
    assert both.active() is None
    assert (facts.bounced_at or facts.complained_at) is not None
    assert both.state(row) == "pending_delete"
    both.sql.advance(3600)
    assert both.carry_out() is None
    assert both.state(row) == "deleted"
    assert both.sandbox.suppressed() == {}
    assert told(both, "Delivery", {}).status == "delivered"


@pytest.mark.parametrize("how", ["nobody began", "it failed", "it is under way"])
@pytest.mark.parametrize(("kind", "detail"), GENUINE)
def test_what_the_mailbox_itself_did_suppresses_again_at_once(
    both: Lists, kind: str, detail: dict[str, Any], how: str
) -> None:
    released(both)
    outstanding(both, how)
    told(both, kind, detail)
    again = both.active()
    assert again is not None
    assert (again["reason"], again["source"], again["returns"]) == (kind.lower(), "event", 1)


@pytest.mark.parametrize(("kind", "detail"), BY_THEIR_LIST)
def test_once_the_entry_is_deleted_what_is_dated_before_is_covered_and_what_is_dated_later_counts(
    both: Lists, kind: str, detail: dict[str, Any]
) -> None:
    released(both)
    before = both.sql.one("SELECT mail_service.clock()")
    both.sql.advance(10)
    assert both.carry_out() is None
    both.sql.advance(10)
    told(both, kind, detail, at=before)
    assert both.active() is None
    told(both, kind, detail)
    again = both.active()
    assert again is not None
    assert (again["source"], again["ses_state"]) == ("ses-list", "unknown")


def test_a_second_release_is_as_good_as_the_first(both: Lists) -> None:
    kind, detail = BY_THEIR_LIST[0]
    released(both)
    told(both, *GENUINE[0])
    (again,) = observe.list_suppressions(
        both.rt, address=ADA, reason=None, active=True, after=None, limit=5
    ).items
    both.sql.advance(10)
    both.release(again.id)
    both.sql.advance(10)
    told(both, kind, detail)
    assert both.active() is None
    while both.carry_out() is None and both.sandbox.suppressed():
        both.sql.advance(10)
    both.sql.advance(10)
    told(both, kind, detail)
    assert both.active() is not None


def test_an_erased_mailbox_s_release_stands_until_a_sync_saw_the_list_without_it(
    both: Lists,
) -> None:
    kind, detail = BY_THEIR_LIST[0]
    row = released(both)
    with both.rt.db.transaction() as tx:
        erasure.forget_suppressions(tx, keyed_hash(both.rt.address_key, ADA), ADA)
    told(both, kind, detail)
    count = "SELECT count(*) FROM mail_service.suppressions WHERE released_at IS NULL"
    assert both.sql.one(count) == 0
    assert both.state(row) == "pending_delete"
    both.sync()
    both.carry_out()
    both.sql.advance(10)
    told(both, kind, detail)
    assert both.sql.one(count) == 1
