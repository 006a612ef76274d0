"""Seen in a chaos run: two holds at once, each of which stopped the probes of the other for ever."""

from __future__ import annotations

import pytest

from mail_service.domain.outcomes import Held, HoldScope, Outcome, Unknown
from mail_service.runtime import Runtime
from mail_service.workflows import dispatch, observe, record
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.steps import call, write_email


def held(scope: HoldScope, error_class: str) -> Held:
    return Held(scope=scope, error_class=error_class, error_code=None)


PAUSED = held(HoldScope.ACCOUNT, "sending_paused")
NO_SET = held(HoldScope.CONFIGURATION_SET, "configuration_set_missing")
BAD_SENDER = held(HoldScope.SENDER, "sender_not_verified")
BAD_TEMPLATE = held(HoldScope.TEMPLATE, "template_missing")
SILENT = [Unknown(error_class="read_timeout", error_code=None)] * 5


@pytest.mark.parametrize(
    "answers",
    [
        [PAUSED, *SILENT],
        [*SILENT, PAUSED],
        [PAUSED, NO_SET],
        [BAD_SENDER, PAUSED],
        [BAD_SENDER, BAD_TEMPLATE],
        [BAD_TEMPLATE, BAD_SENDER, NO_SET, PAUSED, *SILENT],
    ],
)
def test_holds_that_were_opened_together_are_all_cleared_when_all_is_well_again(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql, answers: list[Outcome]
) -> None:
    for number in range(20):
        write_email(rt, f"order-{number}", to=(f"a{number}@example.com",))
    mailer.answers(*answers)
    claims = dispatch.take(rt, len(answers))
    assert record.results(rt, [call(rt, claim) for claim in claims]) == []
    assert len(observe.open_holds(rt)) >= 2
    for _ in range(8):
        sql.advance(2 * rt.settings.retry_cap_seconds)
        claims, _ = dispatch.take_probes(rt)
        assert record.results(rt, [call(rt, claim) for claim in claims]) == []
    assert observe.open_holds(rt) == []
