"""One rate for all workers, counted per recipient; lanes that starve nobody."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from mail_service.domain.outcomes import Deferred, Held, HoldScope, Pace
from mail_service.errors import InvalidFields, Unavailable
from mail_service.ports import SendingQuota
from mail_service.runtime import Runtime
from mail_service.store import rate
from mail_service.workflows import dispatch, pace
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.steps import look, send_all, write_email


def queue(rt: Runtime, n: int, name: str = "order", **request: Any) -> None:
    for i in range(n):
        write_email(rt, f"{name}-{i}", to=(f"{name}{i}@example.com",), **request)


def refill(sql: Sql, seconds: float) -> None:
    sql(
        "UPDATE mail_service.send_rate SET filled_at = mail_service.clock() - make_interval(secs => %s)",
        seconds,
    )


def test_a_wave_takes_no_more_recipients_than_there_are_tokens(rt: Runtime, sql: Sql) -> None:
    queue(rt, 10)
    sql(
        "UPDATE mail_service.send_rate SET per_second = 4, tokens = 4, filled_at = mail_service.clock()"
    )
    assert len(dispatch.take(rt, 10)) == 4
    assert dispatch.take(rt, 10) == []
    refill(sql, 0.5)
    assert len(dispatch.take(rt, 10)) == 2


def test_tokens_do_not_pile_up_beyond_a_second(rt: Runtime, sql: Sql) -> None:
    queue(rt, 10)
    sql("UPDATE mail_service.send_rate SET per_second = 4, tokens = 0")
    refill(sql, 3600)
    assert len(dispatch.take(rt, 10)) == 4


def test_the_rate_counts_recipients_not_calls(rt: Runtime, sql: Sql) -> None:
    many = tuple(f"r{i}@example.com" for i in range(3))
    write_email(rt, "many", to=many)
    queue(rt, 3)
    sql(
        "UPDATE mail_service.send_rate SET per_second = 4, tokens = 4, filled_at = mail_service.clock()"
    )
    assert [len(c.row.recipients) for c in dispatch.take(rt, 10)] == [3, 1]


def test_an_email_of_more_recipients_than_the_rate_still_goes_and_is_paid_for_afterwards(
    rt: Runtime, sql: Sql
) -> None:
    write_email(rt, "many", to=tuple(f"r{i}@example.com" for i in range(10)))
    queue(rt, 1)
    sql(
        "UPDATE mail_service.send_rate SET per_second = 2, tokens = 2, filled_at = mail_service.clock()"
    )
    assert len(dispatch.take(rt, 10)) == 1
    refill(sql, 3)
    assert dispatch.take(rt, 10) == []
    refill(sql, 5)
    assert len(dispatch.take(rt, 10)) == 1


def test_throttling_halves_the_rate_at_most_once_a_second_and_it_comes_back(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    def factor() -> float:
        query = f"SELECT ({rate.FACTOR_NOW})::double precision AS now FROM mail_service.send_rate"
        return float(sql.one(query))

    queue(rt, 6)
    throttled = Deferred(error_class="throttled", pace=Pace.THROTTLED)
    mailer.answers(*[throttled] * 6)
    send_all(rt)
    assert factor() == 0.5
    for expected in (0.25, 0.125, 0.125):
        sql.advance(1.1)
        with rt.db.transaction() as tx:
            rate.throttled(tx)
        assert factor() == expected
    for expected in (0.25, 0.5, 1.0, 1.0):
        sql.advance(5)
        assert factor() == expected


def test_auto_reads_the_quota_and_asks_once_a_minute(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    mailer.account = SendingQuota(
        max_per_second=7,
        max_per_day=100,
        sent_last_day=98,
        sending_enabled=True,
        production_access=True,
    )
    pace.refresh(rt)
    (row,) = sql("SELECT per_second, day_left FROM mail_service.send_rate")
    assert row == {"per_second": 7, "day_left": 2}
    mailer.account = SendingQuota(
        max_per_second=9,
        max_per_day=None,
        sent_last_day=0,
        sending_enabled=True,
        production_access=True,
    )
    pace.refresh(rt)
    assert sql.one("SELECT per_second FROM mail_service.send_rate") == 7
    sql.advance(61)
    pace.refresh(rt)
    assert sql("SELECT per_second, day_left FROM mail_service.send_rate") == [
        {"per_second": 9, "day_left": None}
    ]


def test_the_daily_quota_has_headroom_for_no_more_than_is_left(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    queue(rt, 5)
    sql("UPDATE mail_service.send_rate SET day_left = 2")
    assert len(dispatch.take(rt, 5)) == 2
    assert dispatch.take(rt, 5) == []


def test_a_set_rate_is_taken_as_it_is(runtime_of: Callable[..., Runtime], sql: Sql) -> None:
    pace.refresh(runtime_of(SEND_RATE="3.5"))
    assert sql.one("SELECT per_second FROM mail_service.send_rate") == 3.5


def test_while_ses_does_not_say_the_last_rate_stands(rt: Runtime, sql: Sql) -> None:
    from dataclasses import replace

    def silent() -> SendingQuota:
        raise Unavailable("no answer")

    sql("UPDATE mail_service.send_rate SET per_second = 5")
    pace.refresh(replace(rt, read_quota=silent))
    assert sql.one("SELECT per_second FROM mail_service.send_rate") == 5


def test_priority_is_served_first_and_a_tenth_is_left_to_each_lower_lane(rt: Runtime) -> None:
    queue(rt, 30, "low", priority=0)
    queue(rt, 30, "middle", priority=5)
    queue(rt, 30, "high", priority=9)
    taken = [c.row.recipients[0][1] for c in dispatch.take(rt, 20)]
    lanes = ("low", "middle", "high")
    counts = {lane: sum(address.startswith(lane) for address in taken) for lane in lanes}
    assert counts == {"high": 16, "middle": 2, "low": 2}


def test_what_a_lane_does_not_use_falls_to_the_next(rt: Runtime) -> None:
    queue(rt, 1, "high", priority=9)
    queue(rt, 30, "low", priority=0)
    assert len(dispatch.take(rt, 20)) == 20


def test_within_a_lane_the_oldest_goes_first(rt: Runtime, sql: Sql) -> None:
    queue(rt, 3)
    sql(
        "UPDATE mail_service.email_outbox SET next_attempt_at = next_attempt_at - interval '1 hour'"
        " WHERE dedup_key = 'order-2'"
    )
    (claim,) = dispatch.take(rt, 1)
    assert claim.row.recipients[0][1] == "order2@example.com"


def test_a_refused_email_waits_in_the_lane_below_its_own_from_then_on(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    queue(rt, 1, "refused")
    mailer.answers(Deferred(error_class="unknown_refusal"))
    send_all(rt)
    sql.advance(3600)
    queue(rt, 20, "fresh")
    first = dispatch.take(rt, 1)
    assert first[0].row.recipients[0][1].startswith("fresh")
    assert sql.one("SELECT lane FROM mail_service.email_outbox WHERE dedup_key = 'refused-0'") == 2


def test_retries_do_not_starve_fresh_mail_and_are_not_starved(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    queue(rt, 40, "old")
    sql("UPDATE mail_service.email_outbox SET demoted = true")
    queue(rt, 40, "fresh")
    names = [c.row.recipients[0][1][:3] for c in dispatch.take(rt, 20)]
    assert (names.count("fre"), names.count("old")) == (18, 2)


def test_an_email_for_later_waits_until_then(rt: Runtime, sql: Sql) -> None:
    with rt.db.transaction() as tx:
        later = tx.now + timedelta(hours=1)
    email = write_email(rt, send_at=later)
    assert email.email.next_attempt_at == later
    assert dispatch.take(rt, 5) == []
    sql.advance(3601)
    send_all(rt)
    assert look(rt, email).email.state == "submitted"


def test_the_maximum_age_counts_from_when_an_email_was_first_due(rt: Runtime, sql: Sql) -> None:
    with rt.db.transaction() as tx:
        later = tx.now + timedelta(days=30)
    email = write_email(rt, send_at=later)
    sql.advance(30 * 24 * 3600 + 1)
    send_all(rt)
    assert look(rt, email).email.state == "submitted"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"priority": 10}, "priority"),
        ({"priority": -1}, "priority"),
        ({"not_after": timedelta(seconds=-1)}, "not_after"),
        ({"send_at": timedelta(days=400)}, "send_at"),
        ({"send_at": timedelta(hours=2), "not_after": timedelta(hours=1)}, "not_after"),
    ],
)
def test_a_bad_time_or_priority_is_named(rt: Runtime, change: dict[str, Any], field: str) -> None:
    with rt.db.transaction() as tx:
        now = tx.now
    asked = {k: now + v if isinstance(v, timedelta) else v for k, v in change.items()}
    with pytest.raises(InvalidFields) as refused:
        write_email(rt, **asked)
    assert field in refused.value.fields


def test_a_disabled_account_raises_an_alarm_unless_its_hold_has(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql, capsys: pytest.CaptureFixture[str]
) -> None:
    mailer.account = replace(mailer.account, sending_enabled=False)
    pace.refresh(rt)
    assert capsys.readouterr().out.count("alarm=sending_disabled") == 1
    queue(rt, 1)
    mailer.answers(Held(scope=HoldScope.ACCOUNT, error_class="sending_paused"))
    send_all(rt)
    for _ in range(3):
        sql.advance(61)
        pace.refresh(rt)
    told = capsys.readouterr().out
    assert (told.count("alarm=sending_held"), told.count("alarm=sending_disabled")) == (1, 0)
