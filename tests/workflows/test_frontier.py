"""Claims don't pass again what lies behind them, and nothing is left there for long."""

from mail_service.runtime import Runtime
from mail_service.store.views import EmailView
from mail_service.workflows import dispatch
from mail_service.workflows.frontier import SLACK, WHOLE_LOOK_SECONDS, Frontier
from tests.conftest import Sql
from tests.steps import write_email


class Clock:
    """A monotonic clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def due_earlier(sql: Sql, email: EmailView, seconds: float) -> None:
    """Have an email lie behind whatever is claimed now: as one whose row was locked when it was due."""
    sql(
        "UPDATE mail_service.email_outbox SET next_attempt_at = next_attempt_at "
        "- make_interval(secs => %s) WHERE id = %s",
        seconds,
        email.email.id,
    )


def taken(rt: Runtime, limit: int, frontier: Frontier) -> set[str]:
    return {str(claim.row.email_id) for claim in dispatch.take(rt, limit, frontier)}


def wave(rt: Runtime, sql: Sql, key: str, count: int, *, priority: int = 5) -> list[str]:
    """Write emails, each due a second after the one before."""
    written: list[str] = []
    for n in range(count):
        sql.advance(1)
        written.append(
            str(write_email(rt, f"{key}-{n}", to=(f"{key}{n}@example.com",), priority=priority).email.id)
        )  # fmt: skip
    return written


def test_what_lies_behind_the_frontier_is_taken_by_the_next_whole_look(
    rt: Runtime, sql: Sql
) -> None:
    clock = Clock()
    frontier = Frontier(clock)
    (first,) = wave(rt, sql, "first", 1)
    assert taken(rt, 5, frontier) == {first}
    behind = write_email(rt, "behind", to=("behind@example.com",))
    due_earlier(sql, behind, SLACK.total_seconds() + 60)
    assert taken(rt, 5, frontier) == set()
    assert dispatch.seconds_until_due(rt, frontier) is None
    clock.now += WHOLE_LOOK_SECONDS
    due = dispatch.seconds_until_due(rt, frontier)
    assert due is not None
    assert due < -60
    assert taken(rt, 5, frontier) == {str(behind.email.id)}


def test_a_row_committed_a_little_late_is_taken_at_once(rt: Runtime, sql: Sql) -> None:
    frontier = Frontier(Clock())
    wave(rt, sql, "first", 1)
    taken(rt, 5, frontier)
    late = write_email(rt, "late", to=("late@example.com",))
    due_earlier(sql, late, SLACK.total_seconds() - 0.5)
    assert taken(rt, 5, frontier) == {str(late.email.id)}


def test_the_frontier_goes_back_to_what_a_whole_look_finds(rt: Runtime, sql: Sql) -> None:
    clock = Clock()
    frontier = Frontier(clock)
    old = [
        write_email(rt, f"old-{n}", to=(f"old{n}@example.com",), sender="Held <held@example.com>")
        for n in range(9)
    ]
    for n, email in enumerate(old):
        due_earlier(sql, email, 1000 - n)
    sql(
        "INSERT INTO mail_service.holds (id, scope, subject, error_class, next_probe_at) VALUES "
        "(gen_random_uuid(), 'sender', 'held@example.com', 'sender_not_verified', "
        "mail_service.clock() + interval '1 hour')"
    )
    first = wave(rt, sql, "first", 2)
    assert taken(rt, 5, frontier) == set(first)
    sql(
        "UPDATE mail_service.holds SET cleared_at = mail_service.clock(), cleared_by = 'test', "
        "next_probe_at = NULL"
    )
    newer = wave(rt, sql, "newer", 2)
    clock.now += WHOLE_LOOK_SECONDS
    # Three at a time, and no further whole look: all nine, and then the newer ones.
    got = [taken(rt, 3, frontier) for _ in range(4)]
    assert set().union(*got[:3]) == {str(email.email.id) for email in old}
    assert got[3] == set(newer)


def test_a_lane_that_lags_is_not_passed_because_another_is_ahead(rt: Runtime, sql: Sql) -> None:
    frontier = Frontier(Clock())
    low = wave(rt, sql, "low", 6, priority=1)
    sql.advance(3600)
    high = wave(rt, sql, "high", 12, priority=9)
    seen = taken(rt, 5, frontier)
    assert len(seen & set(high)) == 4
    assert len(seen & set(low)) == 1
    for _ in range(4):
        seen |= taken(rt, 5, frontier)
    assert seen == {*low, *high}


def test_claims_with_a_frontier_take_everything_that_claims_without_one_take(
    rt: Runtime, sql: Sql
) -> None:
    frontier = Frontier(Clock())
    written: list[str] = []
    seen: set[str] = set()
    for n in range(12):
        written += wave(rt, sql, f"wave-{n}", 1 + n % 3, priority=(1, 5, 9)[n % 3])
        seen |= taken(rt, 1 + n % 4, frontier)
    while got := taken(rt, 5, frontier):
        seen |= got
    assert seen == set(written)
