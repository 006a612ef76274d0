"""What SES's list knows becomes ours, and never undoes a release."""

from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from mail_service.errors import Conflict
from mail_service.store.suppression_syncs import ALIVE_SECONDS, Sync
from mail_service.workflows import observe, suppression_sync
from tests.conftest import Sql
from tests.steps import bring, send_all, ses_event, write_email
from tests.suppressions.lists import Lists

ADA = "ada@example.com"


def test_every_page_of_a_long_list_is_taken_in_at_one_call_a_second(both: Lists) -> None:
    names = [f"m{n}@example.com" for n in range(2500)]
    both.at_ses(*names[:500], reason="COMPLAINT", ahead=-60)
    both.at_ses(*names[500:], ahead=-60)
    done = both.sync()
    assert (done.scope, done.pages, done.listed, done.added) == ("full", 3, 2500, 2500)
    assert (done.error, done.unreadable) == (None, 0)
    assert both.ses.calls == ["page"] * 3
    gaps = [after - before for before, after in pairwise(both.ses.times)]
    # The clock is read a little after the place in the row was given.
    assert min(gaps) > timedelta(seconds=0.9)
    counted = both.sql(
        "SELECT reason::text, source, ses_state::text, count(*) FROM mail_service.suppressions "
        "GROUP BY 1, 2, 3 ORDER BY 1"
    )
    assert [tuple(row.values()) for row in counted] == [
        ("bounce", "ses-list", "listed", 2000),
        ("complaint", "ses-list", "listed", 500),
    ]


def test_a_second_sync_changes_nothing(both: Lists) -> None:
    both.at_ses(ADA)
    both.sync()
    before = both.active()
    again = both.sync()
    assert (again.listed, again.added, again.strengthened, again.released) == (1, 0, 0, 0)
    after = both.active()
    assert before is not None
    assert after is not None
    same = {"id", "reason", "returns", "created_at", "ses_state"}
    assert {key: after[key] for key in same} == {key: before[key] for key in same}


def test_a_recent_sync_asks_only_for_what_changed_since_the_last_one(both: Lists) -> None:
    first = both.sync(full=False)
    assert first.scope == "full"  # there was none before
    both.sql.advance(7200)
    both.at_ses("old@example.com", ahead=-20000)
    both.at_ses("new@example.com", ahead=-10)
    done = both.sync(full=False)
    assert (done.scope, done.listed, done.added) == ("recent", 1, 1)
    assert done.since == first.started_at - timedelta(hours=1)
    assert both.active("old@example.com") is None
    assert both.active("new@example.com") is not None


def test_what_ses_knows_strengthens_what_stands_and_nothing_weakens_it(both: Lists) -> None:
    both.at_ses(ADA, reason="BOUNCE")
    both.sync()
    both.at_ses(ADA, reason="COMPLAINT")
    assert both.sync().strengthened == 1
    both.at_ses(ADA, reason="BOUNCE")
    assert both.sync().strengthened == 0
    row = both.active()
    assert row is not None
    assert row["reason"] == "complaint"


def test_an_entry_older_than_a_release_is_deleted_at_ses_and_never_taken_in(both: Lists) -> None:
    both.at_ses(ADA)
    both.sync()
    row = both.active()
    assert row is not None
    both.sql.advance(10)
    both.release(row["id"])
    both.sandbox.knobs(operations={"DeleteSuppressedDestination": "denied"})
    assert both.carry_out() is not None
    for full in (True, False):
        done = both.sync(full=full)
        assert (done.added, done.released) == (0, 1)
        assert both.active() is None
    both.sandbox.knobs(operations={})
    both.sql.advance(3600)
    assert both.carry_out() is None
    assert both.state(row["id"]) == "deleted"
    assert both.sandbox.suppressed() == {}


def test_a_release_that_was_never_told_to_ses_is_found_by_a_sync(both: Lists) -> None:
    both.at_ses(ADA)
    both.sync()
    row = both.active()
    assert row is not None
    both.sql.advance(10)
    both.release(row["id"])
    # As a version did that knew no list of SES's.
    both.sql("UPDATE mail_service.suppressions SET ses_state = 'unknown'")
    assert both.sync().released == 1
    assert both.carry_out() is None
    assert both.sandbox.suppressed() == {}


def test_an_entry_newer_than_a_release_suppresses_again_and_counts_the_return(both: Lists) -> None:
    first = both.add()
    both.carry_out()
    both.sql.advance(10)
    both.release(first)
    both.carry_out()
    both.sql.advance(100)
    both.at_ses(ADA, reason="COMPLAINT")
    assert both.sync().added == 1
    row = both.active()
    assert row is not None
    assert (row["returns"], row["reason"], row["source"]) == (1, "complaint", "ses-list")


def test_a_mailbox_in_several_spellings_is_one_suppression(both: Lists) -> None:
    both.at_ses("Ada@example.com", reason="BOUNCE")
    both.at_ses("ada@Example.com", reason="COMPLAINT")
    both.at_ses("ada@example.com", reason="BOUNCE")
    done = both.sync()
    assert (done.listed, done.added) == (3, 1)
    row = both.active()
    assert row is not None
    assert row["reason"] == "complaint"
    both.sql.advance(10)
    both.release(row["id"], complaint=True)
    # One spelling after the other: each sync finds what is left.
    for _ in range(3):
        both.carry_out()
        both.sync()
    assert both.sandbox.suppressed() == {}
    assert both.active() is None


def test_entries_that_make_no_sense_are_counted_and_the_others_are_taken_in(both: Lists) -> None:
    both.sandbox.list_suppressed("ada@example.com", "BOUNCE")
    both.sandbox.list_suppressed("x,y@example.com", "BOUNCE")
    both.sandbox.list_suppressed("new@example.com", "SOMETHING_NEW")
    done = both.sync()
    assert (done.listed, done.added, done.unreadable) == (3, 2, 1)
    row = both.active("new@example.com")
    assert row is not None
    assert row["reason"] == "bounce"  # whatever it means, SES does not deliver


IMPOSSIBLE = {"year 0": -62167219200.0, "year 5138": 1e11, "year 3170843": 1e14, "in two days": 0.0}


@pytest.mark.parametrize("when", IMPOSSIBLE)
def test_an_entry_dated_impossibly_is_taken_in_and_a_release_lifts_it_for_good(
    both: Lists, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    at = IMPOSSIBLE[when] or both.sql.one(
        "SELECT extract(epoch FROM mail_service.clock())::double precision + 2 * 86400"
    )
    both.at_ses("before@example.com", "zora@example.com")
    both.sandbox.list_suppressed(ADA, "COMPLAINT", at)
    done = both.sync()
    assert (done.error, done.listed, done.added, done.unreadable) == (None, 3, 3, 0)
    row = both.active()
    assert row is not None
    assert row["reason"] == "complaint"
    both.sql.advance(10)
    both.release(row["id"], complaint=True)
    assert both.sync().added == 0
    assert both.carry_out() is None
    assert ADA not in both.sandbox.suppressed()
    assert both.state(row["id"]) == "deleted"


def test_drift_is_seen_both_ways(both: Lists, sql: Sql) -> None:
    both.at_ses("gone@example.com")
    both.at_ses("released@example.com")
    both.sync()
    sql.advance(10)
    both.sandbox.knobs(operations={"GetSuppressedDestination": "unavailable"})
    released = both.active("released@example.com")
    assert released is not None
    both.release(released["id"])
    both.add("put@example.com")
    both.carry_out()
    # Somebody deletes one at SES, without a release here.
    both.ses.real.delete("gone@example.com")
    both.sync()
    drift = suppression_sync.drift(both.rt)
    assert (drift.ours_only, drift.ses_only, drift.to_be_put, drift.failing) == (1, 1, 1, 2)
    assert drift.learned_last_day == 2
    assert drift.last_error is not None
    assert "GetSuppressedDestination" in drift.last_error
    figures = observe.figures(both.rt).suppression_drift
    assert (figures.ours_only, figures.ses_only) == (1, 1)
    # Gone at SES is no release: the suppression stands.
    assert both.active("gone@example.com") is not None
    both.at_ses("gone@example.com")
    both.sync()
    assert suppression_sync.drift(both.rt).ours_only == 0


def test_a_sync_that_ses_does_not_answer_says_why_and_keeps_what_it_read(both: Lists) -> None:
    both.sandbox.knobs(operations={"ListSuppressedDestinations": "denied"})
    done = both.sync()
    assert done.error == (
        "the AWS key may not call ses:ListSuppressedDestinations: allow this action in its IAM policy"
    )
    assert done.finished_at is not None
    drift = suppression_sync.drift(both.rt)
    assert (drift.last_sync_seconds, drift.last_error) == (None, done.error)


def test_a_busy_ses_is_waited_for(both: Lists) -> None:
    both.at_ses(ADA)
    both.sandbox.knobs(operations={"ListSuppressedDestinations": "throttled"})
    waits = both.pause

    def pause(seconds: float) -> None:
        waits(seconds)
        if seconds > 7:
            both.sandbox.knobs(operations={})

    running = suppression_sync.begin(both.rt, full=True, by="test")
    done = suppression_sync.read(both.rt, running, pause=pause)
    assert (done.error, done.added) == (None, 1)
    assert [wait for wait in both.pauses if wait > 1] == [2, 4, 8]
    both.sandbox.knobs(operations={"ListSuppressedDestinations": "throttled"})
    assert both.sync().error == "SES asks to call ListSuppressedDestinations less often"


def test_one_sync_at_a_time_and_a_lost_one_is_given_up(both: Lists) -> None:
    lost = suppression_sync.begin(both.rt, full=True, by="a process that dies")
    with pytest.raises(Conflict, match="under way"):
        both.sync()
    assert suppression_sync.sync_if_due(both.rt, by="test", pause=both.pause) is None
    both.sql.advance(ALIVE_SECONDS + 1)
    assert both.sync().error is None
    late = suppression_sync.read  # the lost one comes back
    with pytest.raises(Exception, match="given up"):
        late(both.rt, lost, pause=both.pause)
    assert both.sql.one("SELECT count(*) FROM mail_service.suppression_syncs") == 2


def test_a_sync_that_is_stopped_keeps_its_pages_and_the_next_one_begins_anew(both: Lists) -> None:
    both.at_ses(*(f"m{n}@example.com" for n in range(1500)), ahead=-60)

    def stop(so_far: Sync) -> None:
        raise KeyboardInterrupt

    running = suppression_sync.begin(both.rt, full=True, by="test")
    with pytest.raises(KeyboardInterrupt):
        suppression_sync.read(both.rt, running, pause=both.pause, tell=stop)
    assert both.sql.one("SELECT count(*) FROM mail_service.suppressions") == 1000
    assert both.sql.one("SELECT error FROM mail_service.suppression_syncs") == "it was stopped"
    assert both.sync().added == 500


def test_a_sync_is_due_each_hour_and_of_the_whole_list_each_day(both: Lists) -> None:
    def due() -> str | None:
        done = suppression_sync.sync_if_due(both.rt, by="test", pause=both.pause)
        return done and done.scope

    seen: list[tuple[float, str | None]] = []
    for hours in (0.0, 0.5, 0.6, *[1.0] * 24):
        both.sql.advance(hours * 3600)
        seen.append((hours, due()))
    assert [scope for _, scope in seen[:3]] == ["full", None, "recent"]
    assert [scope for _, scope in seen[3:]].count("full") == 1
    assert None not in [scope for _, scope in seen[3:]]


def test_an_entry_that_an_event_told_of_is_looked_up_at_the_next_hour(both: Lists) -> None:
    both.at_ses(ADA, reason="COMPLAINT", ahead=-90 * 86_400)
    both.sync()
    # As if it were not taken in: the list was changed behind the sync's back, with an old date.
    both.sql("DELETE FROM mail_service.suppressions")
    both.sql.advance(10)
    write_email(both.rt, to=(ADA,))
    (claim,) = send_all(both.rt)
    now = both.sql.one("SELECT mail_service.clock()").isoformat()
    told = ses_event(
        "Bounce", tag=str(claim.row.attempt_id), at=now, bounceSubType="OnAccountSuppressionList"
    )
    bring(both.rt, told)
    row = both.active()
    assert row is not None
    assert (row["reason"], row["source"], row["ses_state"]) == ("bounce", "ses-list", "unknown")
    assert suppression_sync.drift(both.rt).learned_last_day == 1
    both.sql.advance(1800)
    assert suppression_sync.sync_if_due(both.rt, by="test", pause=both.pause) is None
    for scope in ("full", "recent"):
        both.sql.advance(1800 if scope == "full" else 3600)
        done = suppression_sync.sync_if_due(both.rt, by="test", pause=both.pause)
        assert done is not None
        assert done.scope == scope
    row = both.active()
    assert row is not None
    assert (row["reason"], row["ses_state"]) == ("complaint", "listed")


def test_the_list_is_asked_for_in_the_databases_time(both: Lists) -> None:
    both.sync()
    started = both.sql.one("SELECT started_at FROM mail_service.suppression_syncs")
    assert isinstance(started, datetime)
    assert started.tzinfo is not None
