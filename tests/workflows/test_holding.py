"""Holds: one answer that is no email's fault stops its kind, and nothing else, until a probe gets through."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from mail_service.domain.outcomes import (
    Accepted,
    Deferred,
    Held,
    HoldScope,
    Outcome,
    Pace,
    Refused,
    Released,
    Unknown,
)
from mail_service.errors import Conflict, NotFound
from mail_service.runtime import Runtime
from mail_service.workflows import dispatch, holding, observe, reconcile, record
from mail_service.workflows.dispatch import Claim, Ended
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.steps import call, look, send_all, write_email


def held(scope: HoldScope = HoldScope.ACCOUNT, error_class: str = "sending_paused") -> Held:
    return Held(scope=scope, error_class=error_class, error_code="MessageRejected")


def queue(rt: Runtime, n: int, **request: Any) -> list[Any]:
    start = len(observe.list_emails(rt, observe.Filter(), after=None, limit=100).items)
    return [
        write_email(rt, f"order-{start + i}", to=(f"a{start + i}@example.com",), **request)
        for i in range(n)
    ]


def probe(rt: Runtime) -> list[Claim]:
    claims, _ = dispatch.take_probes(rt)
    return claims


def end(rt: Runtime, claims: list[Claim]) -> None:
    assert record.results(rt, [call(rt, c) for c in claims]) == []


def states(rt: Runtime, emails: list[Any]) -> list[str]:
    return [str(look(rt, e).email.state) for e in emails]


def test_an_account_hold_keeps_every_email_pending_and_uses_up_no_attempt(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    emails = queue(rt, 3)
    mailer.answers(held())
    end(rt, dispatch.take(rt, 1))
    assert states(rt, emails) == ["pending"] * 3
    assert dispatch.take(rt, 10) == []
    assert sql.one("SELECT sum(refusals)::int FROM mail_service.email_outbox") == 0
    (hold,) = observe.open_holds(rt)
    assert (hold.scope, hold.subject, hold.error_class) == ("account", "", "sending_paused")


def test_a_probe_goes_out_after_the_back_off_one_at_a_time(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    queue(rt, 3)
    mailer.answers(held())
    end(rt, dispatch.take(rt, 1))
    assert probe(rt) == []
    sql.advance(rt.settings.retry_base_seconds + 1)
    assert len(probe(rt)) == 1
    sql.advance(10 * rt.settings.retry_cap_seconds)
    assert probe(rt) == []


def test_a_successful_probe_clears_the_hold_and_everything_goes_out(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    emails = queue(rt, 5)
    mailer.answers(held())
    end(rt, dispatch.take(rt, 1))
    sql.advance(rt.settings.retry_base_seconds + 1)
    end(rt, probe(rt))
    assert observe.open_holds(rt) == []
    send_all(rt)
    assert states(rt, emails) == ["submitted"] * 5


@pytest.mark.parametrize(
    ("outcome", "still_held"),
    [
        (Accepted(provider_message_id="m-probe"), False),
        (Refused(error_class="rejected"), False),
        (Deferred(error_class="unknown_refusal"), False),
        (Deferred(error_class="throttled", pace=Pace.THROTTLED), False),
        (held(), True),
        (Unknown(error_class="read_timeout"), True),
    ],
)
def test_only_success_or_a_refusal_of_another_kind_clears(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql, outcome: Outcome, still_held: bool
) -> None:
    queue(rt, 3)
    mailer.answers(held(), outcome)
    end(rt, dispatch.take(rt, 1))
    sql.advance(rt.settings.retry_base_seconds + 1)
    end(rt, probe(rt))
    assert bool(observe.open_holds(rt)) is still_held


@pytest.mark.parametrize(
    ("error_class", "base", "cap", "expected"),
    [
        ("sending_paused", 5, 40, [5, 10, 20, 40, 40]),
        ("sending_paused", 30, 3600, [30, 60, 60, 60, 60]),
        ("sending_paused", 90, 3600, [90, 90, 90, 90, 90]),
        ("daily_quota", 30, 600, [60, 60, 120, 240, 480, 600, 600]),
    ],
)
def test_probes_of_a_hold_that_stays_come_further_apart_but_what_can_be_mended_is_noticed_soon(
    runtime_of: Callable[..., Runtime],
    mailer: ScriptedMailer,
    sql: Sql,
    error_class: str,
    base: int,
    cap: int,
    expected: list[int],
) -> None:
    rt = runtime_of(RETRY_BASE_SECONDS=str(base), RETRY_CAP_SECONDS=str(cap))
    queue(rt, 1)
    mailer.answers(*(held(error_class=error_class) for _ in range(9)))
    end(rt, dispatch.take(rt, 1))
    assert [_next_probe(rt, sql) for _ in expected] == expected


def test_probes_that_tell_nothing_come_minutes_apart_because_each_leaves_an_email_in_doubt(
    runtime_of: Callable[..., Runtime], mailer: ScriptedMailer, sql: Sql
) -> None:
    rt = runtime_of(RETRY_BASE_SECONDS="30", RETRY_CAP_SECONDS="3600")
    emails = queue(rt, 12)
    mailer.answers(*(Unknown(error_class="server_error") for _ in range(12)))
    end(rt, dispatch.take(rt, 5))
    assert [_next_probe(rt, sql) for _ in range(6)] == [30, 60, 120, 240, 300, 300]
    assert sorted(states(rt, emails)) == ["ambiguous"] * 11 + ["pending"]


def _next_probe(rt: Runtime, sql: Sql) -> int:
    """Wait for the next probe and let it end; gives how long that was."""
    gap: float = sql.one(
        "SELECT extract(epoch FROM next_probe_at - mail_service.clock())::float FROM mail_service.holds"
    )
    sql.advance(gap - 1)
    assert probe(rt) == []
    sql.advance(2)
    end(rt, probe(rt))
    return round(gap)


def test_the_daily_quota_is_probed_at_least_a_minute_apart(
    runtime_of: Callable[..., Runtime], mailer: ScriptedMailer, sql: Sql
) -> None:
    rt = runtime_of(RETRY_BASE_SECONDS="1")
    queue(rt, 1)
    mailer.answers(held(error_class="daily_quota"))
    end(rt, dispatch.take(rt, 1))
    sql.advance(55)
    assert probe(rt) == []
    sql.advance(6)
    assert len(probe(rt)) == 1


@pytest.mark.parametrize("how", ["expired", "released"])
def test_a_probe_that_is_lost_frees_the_slot(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql, how: str
) -> None:
    queue(rt, 3)
    mailer.answers(held())
    end(rt, dispatch.take(rt, 1))
    sql.advance(rt.settings.retry_base_seconds + 1)
    (lost,) = probe(rt)
    if how == "released":
        record.results(rt, [Ended(row=lost.row, result=Released())])
    else:
        sql.advance(rt.settings.lease_seconds + 1)
        reconcile.sweep(rt)
    sql.advance(2 * rt.settings.retry_base_seconds + 1)
    end(rt, probe(rt))
    assert observe.open_holds(rt) == []


def test_a_senders_hold_stops_that_sender_alone_and_is_probed_by_it(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    bad = queue(rt, 3, sender="Bad <bad@example.com>")
    mailer.answers(held(HoldScope.SENDER, "sender_not_verified"))
    end(rt, dispatch.take(rt, 1))
    good = queue(rt, 3)
    send_all(rt)
    assert (states(rt, bad), states(rt, good)) == (["pending"] * 3, ["submitted"] * 3)
    assert observe.open_holds(rt)[0].subject == "bad@example.com"
    sql.advance(rt.settings.retry_base_seconds + 1)
    (claim,) = probe(rt)
    assert claim.row.sender_address == "bad@example.com"


def test_an_account_hold_is_probed_by_another_sender_where_one_has_mail_due(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    queue(rt, 2, sender="bad@example.com")
    queue(rt, 1, sender="good@example.com")
    mailer.answers(held())
    (first,) = dispatch.take(rt, 1)
    end(rt, [first])
    assert first.row.sender_address == "bad@example.com"
    sql.advance(rt.settings.retry_base_seconds + 1)
    (claim,) = probe(rt)
    assert claim.row.sender_address == "good@example.com"


def test_a_template_hold_lets_other_versions_through_and_clears_when_it_is_back(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    (changed,) = queue(rt, 1)
    checksum = sql.one("SELECT template_checksum FROM mail_service.email_outbox")
    sql("UPDATE mail_service.email_outbox SET template_checksum = 'another-one-entirely'")
    send_all(rt)
    (other,) = queue(rt, 1)
    send_all(rt)
    assert (states(rt, [changed]), states(rt, [other])) == (["pending"], ["submitted"])
    assert observe.open_holds(rt)[0].scope == "template"
    assert mailer.calls[0].to == (other.recipients[0].address,)
    sql(
        "UPDATE mail_service.email_outbox SET template_checksum = %s WHERE state = 'pending'",
        checksum,
    )
    sql(
        "UPDATE mail_service.holds SET subject ="
        " (SELECT template_version FROM mail_service.email_outbox WHERE state = 'pending')"
    )
    sql.advance(rt.settings.retry_base_seconds + 1)
    end(rt, probe(rt))
    assert (states(rt, [changed]), observe.open_holds(rt)) == (["submitted"], [])


def test_held_emails_never_fill_a_wave(rt: Runtime, mailer: ScriptedMailer) -> None:
    queue(rt, 30, sender="bad@example.com")
    mailer.answers(held(HoldScope.SENDER, "sender_not_verified"))
    end(rt, dispatch.take(rt, 1))
    good = queue(rt, 2)
    send_all(rt, limit=5)
    assert states(rt, good) == ["submitted"] * 2


def test_five_unknown_outcomes_in_a_row_hold_the_endpoint(
    rt: Runtime, mailer: ScriptedMailer
) -> None:
    emails = queue(rt, 9)
    mailer.answers(*(Unknown(error_class="server_error") for _ in range(9)))
    for _ in range(9):
        end(rt, dispatch.take(rt, 1))
    assert sorted(states(rt, emails)) == ["ambiguous"] * 5 + ["pending"] * 4
    assert observe.open_holds(rt)[0].error_class == "unknown_outcomes"


def test_an_acceptance_between_starts_the_count_anew(rt: Runtime, mailer: ScriptedMailer) -> None:
    queue(rt, 9)
    unknown = Unknown(error_class="server_error")
    mailer.answers(*[unknown] * 4, Accepted(provider_message_id="m"), *[unknown] * 4)
    for _ in range(9):
        end(rt, dispatch.take(rt, 1))
    assert observe.open_holds(rt) == []


def test_a_hold_raises_one_alarm_however_many_calls_it_caught(
    rt: Runtime, mailer: ScriptedMailer, capsys: pytest.CaptureFixture[str]
) -> None:
    queue(rt, 5)
    mailer.answers(*(held() for _ in range(5)))
    end(rt, dispatch.take(rt, 5))
    assert capsys.readouterr().out.count("alarm=sending_held") == 1
    assert len(observe.open_holds(rt)) == 1


@pytest.mark.parametrize(
    ("answers", "stopped"),
    [
        ([held()], ["bad@example.com", "good@example.com"]),
        ([held(HoldScope.CONFIGURATION_SET)], ["bad@example.com", "good@example.com"]),
        ([held(HoldScope.SENDER, "sender_not_verified")], ["bad@example.com"]),
        ([held(HoldScope.TEMPLATE, "template_missing")], ["bad@example.com", "good@example.com"]),
        ([Unknown(error_class="read_timeout")] * 5, ["bad@example.com", "good@example.com"]),
    ],
)
def test_what_was_claimed_ahead_and_waited_is_not_called_under_a_hold_opened_meanwhile(
    rt: Runtime, mailer: ScriptedMailer, answers: list[Outcome], stopped: list[str]
) -> None:
    queue(rt, len(answers), sender="bad@example.com")
    calling = dispatch.take(rt, len(answers))
    ahead = [*queue(rt, 1, sender="bad@example.com"), *queue(rt, 1, sender="good@example.com")]
    claims = [replace(c, checked=c.checked - 10) for c in dispatch.take(rt, 2)]
    mailer.answers(*answers)
    end(rt, calling)
    fresh, back = dispatch.recheck(rt, claims)
    assert sorted(ended.row.sender_address for ended in back) == stopped
    assert len(fresh) == 2 - len(stopped)
    record.results(rt, back)
    assert states(rt, ahead).count("pending") == len(stopped)


def test_a_probe_that_waited_for_a_free_place_goes_through_its_own_hold(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    queue(rt, 2)
    mailer.answers(held())
    end(rt, dispatch.take(rt, 1))
    sql.advance(rt.settings.retry_base_seconds + 1)
    waited = [replace(c, checked=c.checked - 10) for c in probe(rt)]
    fresh, back = dispatch.recheck(rt, waited)
    assert (len(fresh), back) == (1, [])


def test_an_operator_clears_a_hold_once(rt: Runtime, mailer: ScriptedMailer) -> None:
    emails = queue(rt, 2)
    mailer.answers(held())
    end(rt, dispatch.take(rt, 1))
    (hold,) = observe.open_holds(rt)
    cleared = holding.clear(rt, hold.id, reason="AWS lifted the pause", by="key:1")
    assert (cleared.cleared_by, cleared.clear_reason) == ("key:1", "AWS lifted the pause")
    send_all(rt)
    assert states(rt, emails) == ["submitted"] * 2
    with pytest.raises(Conflict):
        holding.clear(rt, hold.id, reason="again", by="key:1")
    with pytest.raises(NotFound):
        holding.clear(rt, rt.new_id(), reason="what", by="key:1")


def test_an_email_under_two_holds_is_no_probe_for_either(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    queue(rt, 2, sender="bad@example.com")
    mailer.answers(held(HoldScope.SENDER, "sender_not_verified"), held())
    end(rt, dispatch.take(rt, 1))
    queue(rt, 1, sender="good@example.com")
    end(rt, dispatch.take(rt, 1))
    sql.advance(rt.settings.retry_base_seconds + 1)
    (claim,) = probe(rt)
    assert claim.row.sender_address == "good@example.com"
