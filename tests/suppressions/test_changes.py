"""SES's list is told what people decided, however often SES is down and whatever happens meanwhile."""

import threading
import time
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import psycopg
import pytest

from mail_service.domain.address import keyed_hash
from mail_service.domain.suppression import SuppressionReason
from mail_service.runtime import Runtime
from mail_service.store import ses_changes, ses_list, suppressions
from mail_service.workflows import suppression_changes
from tests.conftest import Sql
from tests.suppressions.lists import Lists

ADA = "ada@example.com"


def test_what_a_person_suppresses_is_put_at_ses_and_comes_back_as_nothing_new(both: Lists) -> None:
    row = both.add()
    assert both.state(row) == "pending_put"
    assert both.carry_out() is None
    assert both.sandbox.suppressed() == {ADA: "BOUNCE"}
    assert both.state(row) == "listed"
    done = both.sync()
    assert (done.added, done.strengthened) == (0, 0)
    standing = both.active()
    assert standing is not None
    assert standing["reason"] == "manual"


def test_a_put_never_replaces_what_ses_found_out_by_itself(both: Lists) -> None:
    both.at_ses(ADA, reason="COMPLAINT")
    both.add()
    assert both.carry_out() is None
    assert both.ses.calls == ["find"]
    standing = both.active()
    assert standing is not None
    assert (standing["reason"], standing["ses_state"]) == ("complaint", "listed")


def test_what_an_event_suppressed_is_not_put(both: Lists) -> None:
    with both.rt.db.transaction() as tx:
        suppressions.suppress(
            tx,
            new_id=both.rt.new_id(),
            address_hash=keyed_hash(both.rt.address_key, ADA),
            address=ADA,
            reason=SuppressionReason.BOUNCE,
            source="event",
            evidence_at=tx.now,
        )
    assert both.carry_out() is None
    assert both.ses.calls == []


def test_a_release_is_deleted_at_ses_and_the_outcome_is_kept(both: Lists) -> None:
    row = both.add()
    both.carry_out()
    both.release(row)
    assert both.state(row) == "pending_delete"
    assert both.carry_out() is None
    assert both.sandbox.suppressed() == {}
    (kept,) = both.sql("SELECT * FROM mail_service.suppressions")
    assert (kept["ses_state"], kept["ses_error"], kept["ses_tries"]) == ("deleted", None, 0)
    assert kept["ses_checked_at"] is not None


def test_what_ses_never_listed_counts_as_deleted(both: Lists) -> None:
    row = both.add()
    both.release(row)
    assert both.carry_out() is None
    assert both.ses.calls == ["find"]
    assert both.state(row) == "deleted"


@pytest.mark.parametrize("operation", ["GetSuppressedDestination", "DeleteSuppressedDestination"])
def test_a_delete_that_fails_is_tried_again_until_it_is_done(both: Lists, operation: str) -> None:
    row = both.add()
    both.carry_out()
    both.release(row)
    both.sandbox.knobs(operations={operation: "unavailable"})
    waited: list[float] = []
    for tries in range(1, 9):
        assert both.carry_out() == f"SES refused {operation}: ServiceUnavailableException"
        kept = both.sql(
            "SELECT ses_tries, ses_next_at - mail_service.clock() AS wait "
            "FROM mail_service.suppressions"
        )[0]
        assert kept["ses_tries"] == tries
        waited.append(round(kept["wait"].total_seconds()))
        assert both.carry_out() is None  # not yet due
        both.sql.advance(kept["wait"].total_seconds() + 0.1)
    assert waited == sorted(waited)
    assert waited[-1] <= 3600
    both.sandbox.knobs(operations={})
    assert both.carry_out() is None
    assert both.state(row) == "deleted"
    assert both.sandbox.suppressed() == {}


def test_when_a_person_asks_what_waits_to_be_tried_again_is_tried_now(both: Lists) -> None:
    rows = [both.add(f"m{n}@example.com") for n in range(5)]
    both.sandbox.knobs(operations={"PutSuppressedDestination": "denied"})
    for _ in range(3):
        assert both.carry_out() is not None
    both.sandbox.knobs(operations={})
    assert both.carry_out() is None  # each is given a while
    assert {both.state(row) for row in rows} == {"pending_put"}
    assert suppression_changes.hurry(both.rt) == 5
    assert both.carry_out() is None
    assert {both.state(row) for row in rows} == {"listed"}


def test_what_is_being_tried_is_not_tried_twice_because_a_person_asks(both: Lists) -> None:
    both.add()
    both.sandbox.knobs(operations={"PutSuppressedDestination": "denied"})
    assert both.carry_out() is not None
    both.sql.advance(61)
    with both.rt.db.transaction() as tx:
        assert ses_changes.next_change(tx) is not None
    assert suppression_changes.hurry(both.rt) == 0
    with both.rt.db.transaction() as tx:
        assert ses_changes.next_change(tx) is None


def test_addresses_that_ses_does_not_take_do_not_stop_what_a_person_asks_for(both: Lists) -> None:
    for n in range(4):
        odd = f"ada{n}@exa_mple.com"  # no address that we would take today
        with both.rt.db.transaction() as tx:
            suppressions.suppress(
                tx,
                new_id=both.rt.new_id(),
                address_hash=keyed_hash(both.rt.address_key, odd),
                address=odd,
                reason=SuppressionReason.MANUAL,
                source="test",
                put_at_ses=True,
            )
    row = both.add()
    assert both.carry_out() is not None
    assert both.state(row) == "pending_put"
    suppression_changes.hurry(both.rt)
    told = suppression_changes.carry_out(
        both.rt, pause=both.pause, give_up_after=suppression_changes.FAILURES_WHEN_ASKED
    )
    assert told is not None
    assert both.state(row) == "listed"
    assert suppression_changes.waiting(both.rt) == 4


def test_while_ses_is_down_few_are_tried_and_all_are_told_later(both: Lists) -> None:
    rows = [both.add(f"m{n}@example.com") for n in range(6)]
    both.sandbox.knobs(operations={"PutSuppressedDestination": "denied"})
    problem = both.carry_out()
    assert problem is not None
    assert "ses:PutSuppressedDestination" in problem
    assert both.ses.calls.count("put") == 2
    both.sandbox.knobs(operations={})
    both.sql.advance(3600)
    assert both.carry_out() is None
    assert {both.state(row) for row in rows} == {"listed"}
    assert len(both.sandbox.suppressed()) == 6


def test_one_address_that_ses_does_not_take_does_not_stop_the_others(both: Lists) -> None:
    # Taken by us, refused by SES.
    both.add("o'neil..x@example.com".replace("..", "."))
    rows = [both.add(f"m{n}@example.com") for n in range(3)]
    both.carry_out()
    assert {both.state(row) for row in rows} == {"listed"}


def test_deletes_go_before_puts(both: Lists) -> None:
    row = both.add()
    both.carry_out()
    for n in range(3):
        both.add(f"m{n}@example.com")
    both.release(row)
    both.ses.calls.clear()
    both.carry_out()
    assert both.ses.calls == ["find", "delete", *["find", "put"] * 3]


def test_calls_keep_a_second_apart_whoever_makes_them(both: Lists) -> None:
    for n in range(3):
        both.add(f"m{n}@example.com")
    both.carry_out()
    both.sync()
    assert both.ses.calls == [*["find", "put"] * 3, "page"]
    gaps = [after - before for before, after in pairwise(both.ses.times)]
    # The clock is read a little after the place in the row was given.
    assert min(gaps) > timedelta(seconds=0.9)


def test_evidence_that_ses_gained_after_the_release_is_not_deleted(both: Lists) -> None:
    both.at_ses(ADA)
    both.sync()
    row = both.active()
    assert row is not None
    both.sql.advance(10)
    both.release(row["id"])
    both.sql.advance(10)
    both.at_ses(ADA, reason="COMPLAINT")
    assert both.carry_out() is None
    assert both.sandbox.suppressed() == {ADA: "COMPLAINT"}
    assert both.state(row["id"]) == "kept"
    again = both.active()
    assert again is not None
    assert (again["reason"], again["returns"]) == ("complaint", 1)


def test_a_mailbox_that_was_suppressed_again_is_not_deleted(both: Lists) -> None:
    first = both.add()
    both.carry_out()
    both.release(first)
    second = both.add()
    assert both.carry_out() is None
    assert (both.state(first), both.state(second)) == ("kept", "listed")
    assert both.sandbox.suppressed() == {ADA: "BOUNCE"}


def test_a_release_while_the_put_is_under_way_ends_with_no_entry(both: Lists) -> None:
    """The call lands at SES after the release, dated after it, and is recorded last."""
    row = both.add()
    real = both.ses.put

    class Late:
        def __getattr__(self, name: str) -> object:
            return getattr(both.ses, name)

        def put(self, address: str, reason: SuppressionReason) -> None:
            both.release(row)
            # Another worker looks meanwhile, and leaves the mailbox alone.
            assert suppression_changes.carry_out(both.rt, pause=both.pause) is None
            both.sql.advance(3)
            real(address, reason)

    rt = replace(both.rt, ses_list=Late())  # pyright: ignore
    assert suppression_changes.carry_out(rt, pause=both.pause) is None
    assert both.state(row) == "deleted"
    assert both.sandbox.suppressed() == {}
    assert both.active() is None


def test_a_delete_under_way_holds_back_the_put_of_the_same_mailbox(both: Lists) -> None:
    """Else the put could find the entry still there, and the delete would take it away after that."""
    first = both.add()
    both.carry_out()
    both.release(first)
    real = both.ses.delete
    during: list[str] = []

    class Slow:
        def __getattr__(self, name: str) -> object:
            return getattr(both.ses, name)

        def delete(self, address: str) -> bool:
            second = both.add()
            assert suppression_changes.carry_out(both.rt, pause=both.pause) is None
            during.append(both.state(second))
            return real(address)

    rt = replace(both.rt, ses_list=Slow())  # pyright: ignore
    assert suppression_changes.carry_out(rt, pause=both.pause) is None
    assert during == ["pending_put"]
    assert both.sandbox.suppressed() == {ADA: "BOUNCE"}
    standing = both.active()
    assert standing is not None
    assert standing["ses_state"] == "listed"


def test_an_entry_of_ours_dated_after_the_release_by_ses_s_clock_is_still_ours(both: Lists) -> None:
    row = both.add()
    both.carry_out()
    both.release(row)
    both.at_ses(ADA, reason="BOUNCE", ahead=20)  # SES's clock is ahead of ours
    assert both.sync().added == 0
    assert both.active() is None
    both.carry_out()
    assert both.sandbox.suppressed() == {}


def test_the_spelling_under_which_ses_lists_it_is_the_one_that_is_deleted(both: Lists) -> None:
    row = both.add("ada@example.com")
    both.at_ses("ADA@example.com")
    both.sync()
    both.sql.advance(10)
    both.release(row)
    assert both.carry_out() is None
    assert both.sandbox.suppressed() == {}
    assert both.sql.one("SELECT ses_address FROM mail_service.suppressions") is None


def test_a_change_whose_process_died_is_taken_again(both: Lists) -> None:
    row = both.add()
    with both.rt.db.transaction() as tx:
        assert ses_changes.next_change(tx) is not None
    assert both.carry_out() is None
    assert both.state(row) == "pending_put"
    both.sql.advance(301)
    assert both.carry_out() is None
    assert both.state(row) == "listed"


def test_a_change_that_is_stopped_between_two_calls_is_free_at_once(both: Lists) -> None:
    row = both.add()

    def stop(seconds: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        suppression_changes.carry_out(both.rt, pause=stop)
    assert both.carry_out() is None
    assert both.state(row) == "listed"


def test_an_erased_address_is_deleted_at_ses_when_a_sync_sees_it(both: Lists) -> None:
    both.at_ses(ADA)
    both.sync()
    row = both.active()
    assert row is not None
    both.sql("UPDATE mail_service.suppressions SET address = NULL, ses_address = NULL")
    both.sql.advance(10)
    both.release(row["id"])
    assert both.carry_out() is None
    assert both.state(row["id"]) == "pending_delete"
    both.sync()
    assert both.carry_out() is None
    assert both.state(row["id"]) == "deleted"
    assert both.sandbox.suppressed() == {}
    assert both.sql.one("SELECT ses_address FROM mail_service.suppressions") is None


@pytest.mark.parametrize(("source", "age"), [("event", 0), ("ses-list", 0), ("ses-list", 3600)])
def test_a_release_under_way_beats_what_it_covers_that_is_added_in_the_same_moment(
    rt: Runtime, sql: Sql, both: Lists, source: str, age: int
) -> None:
    """The insert waits for the release at the unique index, and goes on with what it saw before."""
    row = both.add()
    old = sql.one("SELECT mail_service.clock()")
    sql.advance(10)
    outcome: list[object] = []

    def bounce(at: datetime) -> None:
        with rt.db.transaction() as tx:
            outcome.append(
                suppressions.suppress(
                    tx,
                    new_id=rt.new_id(),
                    address_hash=keyed_hash(rt.address_key, ADA),
                    address=ADA,
                    reason=SuppressionReason.BOUNCE,
                    source=source,
                    by_their_list=source == ses_list.SOURCE,
                    evidence_at=at,
                )
            )

    with psycopg.connect(sql.url) as releasing:
        releasing.execute(
            "UPDATE mail_service.suppressions SET released_at = mail_service.clock(), "
            "released_by = 'test', release_rule = 'operator_error', ses_state = 'pending_delete' "
            "WHERE id = %s",
            (row,),
        )
        thread = threading.Thread(target=bounce, args=(old + timedelta(seconds=age),))
        thread.start()
        until = time.monotonic() + 10
        while not sql("SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"):
            assert time.monotonic() < until
            time.sleep(0.01)
        releasing.commit()
        thread.join(10)
    assert outcome == [None]
    assert both.active() is None
