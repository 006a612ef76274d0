"""The auditor sees each broken promise in evidence that was made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mail_service.ports import TAG_NAME
from tests.campaign.auditor import Evidence, judge
from tests.campaign.load import Answered

T0 = datetime(2026, 11, 29, 10, tzinfo=UTC)


def call(event: str, tag: str, message_id: str | None = None, seconds: float = 1) -> dict[str, Any]:
    return {
        "event": event,
        "tags": {TAG_NAME: tag},
        "message_id": message_id,
        "at": (T0 + timedelta(seconds=seconds)).timestamp(),
    }


def attempt(tag: str, state: str, number: int = 1, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "request_tag": tag,
        "email_id": "email-1",
        "number": number,
        "epoch": 0,
        "state": state,
        "provider_message_id": None,
        "started_at": T0,
    }
    return row | changes


def good() -> Evidence:
    """One email that was throttled once and then accepted."""
    return Evidence(
        answered=[Answered("key-1", "a@example.com", "account-1", "email-1", False, 1)],
        unanswered=[],
        calls=[
            call("arrived", "tag-1"),
            call("refused", "tag-1"),
            call("answered", "tag-1"),
            call("arrived", "tag-2"),
            call("accepted", "tag-2", "message-1"),
            call("answered", "tag-2", "message-1"),
        ],
        deliveries=[{"event": "Send", "provider_message_id": "message-1", "status": 200}],
        accounts=[{"id": "account-1", "email": "a@example.com"}],
        emails=[{"id": "email-1", "account_id": "account-1", "state": "submitted"}],
        attempts=[
            attempt("tag-1", "retryable"),
            attempt("tag-2", "accepted", 2, provider_message_id="message-1"),
        ],
        transitions=[],
    )


def broken(found: Evidence) -> set[str]:
    """Give the rules that are broken."""
    return {verdict.rule for verdict in judge(found) if verdict.violations}


def test_a_good_history_breaks_no_rule_and_every_rule_but_two_looks_at_something() -> None:
    verdicts = judge(good())
    assert broken(good()) == set()
    idle = [verdict.rule for verdict in verdicts if not verdict.looked_at]
    assert idle == [
        "the sweep never makes an email sendable",
        "what was killed before its call never arrived",
    ]


Spoil = Callable[[Evidence], Evidence]

SPOILED: dict[str, tuple[str, Spoil]] = {
    "an answered account is gone": (
        "every 2xx is in the database, with one outbox row",
        lambda e: replace(e, accounts=[], emails=[]),
    ),
    "an answered account has no email": (
        "every 2xx is in the database, with one outbox row",
        lambda e: replace(e, emails=[]),
    ),
    "an account has two emails": (
        "every account has exactly one email, and the reverse",
        lambda e: replace(e, emails=[*e.emails, e.emails[0] | {"id": "email-2"}]),
    ),
    "a key was answered with two accounts": (
        "one key, one account and email; every sign-up was answered",
        lambda e: replace(
            e, answered=[*e.answered, replace(e.answered[0], account_id="account-2")]
        ),
    ),
    "a sign-up was never answered": (
        "one key, one account and email; every sign-up was answered",
        lambda e: replace(e, unanswered=["key-2: 409"]),
    ),
    "a call without an attempt": (
        "every request has one attempt, begun before it arrived",
        lambda e: replace(e, calls=[*e.calls, call("arrived", "tag-9")]),
    ),
    "a call before its attempt": (
        "every request has one attempt, begun before it arrived",
        lambda e: replace(e, calls=[call("arrived", "tag-1", seconds=-1), *e.calls[1:]]),
    ),
    "a tag used for two calls": (
        "no tag arrived twice",
        lambda e: replace(e, calls=[*e.calls, call("arrived", "tag-2")]),
    ),
    "a second acceptance in one epoch": (
        "at most one acceptance per email and epoch",
        lambda e: replace(e, calls=[*e.calls, call("accepted", "tag-1", "message-2")]),
    ),
    "a refusal that was an acceptance": (
        "nothing recorded as not accepted was accepted",
        lambda e: replace(e, calls=[*e.calls, call("accepted", "tag-1", "message-2")]),
    ),
    "an acceptance that SES does not know": (
        "what is recorded as accepted was, under that MessageId",
        lambda e: replace(e, calls=[c for c in e.calls if c["event"] != "accepted"]),
    ),
    "a MessageId that SES did not give": (
        "what is recorded as accepted was, under that MessageId",
        lambda e: replace(
            e, attempts=[e.attempts[0], e.attempts[1] | {"provider_message_id": "message-9"}]
        ),
    ),
    "an email that never ended": (
        "every email is submitted or ambiguous",
        lambda e: replace(e, emails=[e.emails[0] | {"state": "sending"}]),
    ),
    "a submitted email that nobody accepted": (
        "whatever is submitted was accepted under one of its tags",
        lambda e: replace(e, calls=[c for c in e.calls if c["event"] != "accepted"]),
    ),
    "doubt in spite of evidence": (
        "an accepted call whose Send event was answered 2xx is submitted",
        lambda e: replace(e, emails=[e.emails[0] | {"state": "ambiguous"}]),
    ),
    "a sweep that makes an email sendable": (
        "the sweep never makes an email sendable",
        lambda e: replace(
            e, transitions=[{"email_id": "email-1", "actor": "sweep", "to_state": "pending"}]
        ),
    ),
    "another attempt in spite of doubt": (
        "a further attempt follows only recorded refusals",
        lambda e: replace(e, attempts=[attempt("tag-1", "unknown"), e.attempts[1]]),
    ),
    "a call of a worker that was dead": (
        "what was killed before its call never arrived",
        lambda e: replace(e, never_called={"tag-2"}),
    ),
}


@pytest.mark.parametrize("what", SPOILED)
def test_the_auditor_sees(what: str) -> None:
    rule, spoil = SPOILED[what]
    assert rule in broken(spoil(good()))


def test_doubt_without_evidence_is_allowed() -> None:
    found = good()
    doubtful = replace(
        found,
        deliveries=[found.deliveries[0] | {"status": 503}],
        emails=[found.emails[0] | {"state": "ambiguous"}],
        attempts=[found.attempts[0], attempt("tag-2", "unknown", 2)],
    )
    assert broken(doubtful) == set()
