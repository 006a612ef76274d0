"""The auditor sees each broken promise in evidence that was made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from mail_service.ports import TAG_NAME
from tests.weather.auditor import judge
from tests.weather.evidence import Evidence
from tests.weather.weathers import BILLING, SHOP, Weather, local_part_of, sender_of

T0 = datetime(2026, 11, 29, 10, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def call(event: str, tag: str, seconds: float, **changes: Any) -> dict[str, Any]:
    row = {
        "event": event,
        "tags": {TAG_NAME: tag},
        "message_id": None,
        "at": at(seconds).timestamp(),
    }
    return row | {"status": None, "behaviour": "success"} | changes


def answered(tag: str, seconds: float, status: int, **changes: Any) -> list[dict[str, Any]]:
    accepted = [call("accepted", tag, seconds, message_id=f"m-{tag}")] if status == 200 else []
    return [
        call("arrived", tag, seconds),
        *accepted,
        call("answered", tag, seconds, status=status, **changes),
    ]


def email(
    name: str, state: str = "submitted", seconds: float = 42, **changes: Any
) -> dict[str, Any]:
    row = {"id": name, "sender": SHOP, "state": state, "refusals": 0, "created_at": at(9)}
    return row | {"submitted_at": at(seconds), "doubted_at": None} | changes


def attempt(tag: str, name: str, seconds: float, state: str, **changes: Any) -> dict[str, Any]:
    row = {"tag": tag, "email_id": name, "sender": SHOP, "number": 1, "epoch": 0, "state": state}
    times = {"started_at": at(seconds), "finished_at": at(seconds + 0.2)}
    return row | {"error_class": None} | times | changes


def good() -> Evidence:
    """A paused account: one email was caught, a probe was refused, the next cleared the hold."""
    return Evidence(
        weather=Weather(name="paused", hold=("account", "")),
        begun=at(9),
        ended=at(30),
        emails=[email("one"), email("two"), email("three")],
        attempts=[
            attempt("t1", "one", 10, "held"),
            attempt("t2", "two", 20, "held"),
            attempt("t3", "three", 40, "accepted"),
            attempt("t4", "one", 41, "accepted", number=2),
            attempt("t5", "two", 41, "accepted", number=2),
        ],
        holds=[
            {"scope": "account", "subject": "", "probes": 2, "cleared_by": "probe"}
            | {"opened_at": at(10.2), "told_at": at(10.3), "cleared_at": at(40.2)}
        ],
        decisions=[],
        calls=[
            *answered("t1", 10.1, 400),
            *answered("t2", 20.1, 400),
            *answered("t3", 40.1, 200),
            *answered("t4", 41.1, 200),
            *answered("t5", 41.1, 200),
        ],
        deliveries=[],
        desk=set(),
        alarms=["sending_held"],
        probes={"t2", "t3"},
        lost=set(),
    )


def doubtful(found: Evidence) -> Evidence:
    """The same, with one call more that was cut before SES had it, and is seen as it should be."""
    return replace(
        found,
        weather=replace(found.weather, doubt=True),
        emails=[*found.emails, email("four", "ambiguous", submitted_at=None, doubted_at=at(12))],
        attempts=[*found.attempts, attempt("t6", "four", 9.9, "unknown")],
        calls=[*found.calls, call("arrived", "t6", 10), call("reset", "t6", 10)],
        desk={"four"},
    )


def change(rows: list[dict[str, Any]], number: int, **changes: Any) -> list[dict[str, Any]]:
    return [row | changes if n == number else row for n, row in enumerate(rows)]


def proved(found: Evidence, status: int) -> Evidence:
    found = doubtful(found)
    accepted = call("accepted", "t6", 10, message_id="m-t6")
    told = {"provider_message_id": "m-t6", "event": "Send", "status": status}
    return replace(found, calls=[*found.calls, accepted], deliveries=[told])


BROKEN: dict[str, list[Callable[[Evidence], Evidence]]] = {
    "everything came to rest": [lambda e: replace(e, unfinished="a thing")],
    "nothing failed": [lambda e: replace(e, emails=change(e.emails, 0, state="failed"))],
    "all went out": [
        lambda e: replace(e, emails=change(e.emails, 0, state="pending")),
        lambda e: replace(e, emails=change(e.emails, 0, state="ambiguous")),
    ],
    "at most one acceptance": [
        lambda e: replace(e, calls=[*e.calls, call("accepted", "t1", 10, message_id="m")])
    ],
    "what the weather is not about": [
        lambda e: replace(e, weather=replace(e.weather, stops=BILLING)),
        lambda e: replace(e, weather=replace(e.weather, stops=BILLING), ended=at(60)),
    ],
    "the hold that is due": [
        lambda e: replace(e, holds=[]),
        lambda e: replace(e, holds=e.holds * 2),
        lambda e: replace(e, holds=change(e.holds, 0, scope="endpoint")),
        lambda e: replace(e, holds=change(e.holds, 0, cleared_by="key:1")),
        lambda e: replace(e, weather=replace(e.weather, hold=None)),
    ],
    "each hold raises one alarm": [
        lambda e: replace(e, alarms=[]),
        lambda e: replace(e, alarms=["sending_held"] * 2),
        lambda e: replace(e, alarms=["sending_held", "drain_failed"]),
    ],
    "only probes are called": [lambda e: replace(e, probes={"t3"})],
    "one probe at a time": [
        lambda e: replace(e, attempts=change(e.attempts, 1, finished_at=at(41))),
        lambda e: replace(e, attempts=change(e.attempts, 1, finished_at=None)),
    ],
    "no email used up": [lambda e: replace(e, emails=change(e.emails, 0, refusals=1))],
    "a clear sky is noticed": [
        lambda e: replace(e, ended=at(-50), holds=change(e.holds, 0, opened_at=at(-60))),
        lambda e: replace(e, emails=change(e.emails, 0, submitted_at=at(90))),
    ],
    "an accepted call whose event": [
        lambda e: proved(e, 200),
        lambda e: replace(e, decisions=[{"email_id": "one", "by": "key:1"}]),
    ],
    "what is ambiguous can't be known": [
        lambda e: replace(doubtful(e), calls=[*e.calls, *answered("t6", 10, 429)]),
    ],
    "doubt is no more than": [
        lambda e: replace(doubtful(e), calls=[*e.calls, *answered("t6", 10, 200)]),
        lambda e: replace(
            doubtful(e),
            slots=0,
            holds=change(e.holds, 0, probes=0),
            emails=[*doubtful(e).emails, *(email(f"e{n}", "ambiguous") for n in range(4))],
            attempts=[
                *doubtful(e).attempts,
                *(attempt(f"x{n}", f"e{n}", 9, "unknown") for n in range(4)),
            ],
        ),
    ],
    "doubt is on the operator's list": [
        lambda e: replace(doubtful(e), desk=set()),
        lambda e: replace(doubtful(e), lease=0.0, sweep=0.0, emails=_late(doubtful(e))),
        lambda e: replace(e, desk={"one"}),
    ],
}


def _late(found: Evidence) -> list[dict[str, Any]]:
    return change(found.emails, 3, doubted_at=at(30))


def broken(found: Evidence) -> list[str]:
    return [verdict.rule for verdict in judge(found) if verdict.violations]


@pytest.mark.parametrize(
    "found", [good(), doubtful(good()), proved(good(), 503)], ids=["good", "doubtful", "unproved"]
)
def test_what_is_as_promised_breaks_no_rule(found: Evidence) -> None:
    assert broken(found) == []


@pytest.mark.parametrize(
    ("rule", "number"), [(rule, n) for rule, breaks in BROKEN.items() for n in range(len(breaks))]
)
def test_each_rule_sees_what_breaks_it(rule: str, number: int) -> None:
    rules = broken(BROKEN[rule][number](good()))
    assert any(name.startswith(rule) for name in rules), rules


def test_every_rule_is_shown_to_fail() -> None:
    rules = [verdict.rule for verdict in judge(good())]
    assert all(any(rule.startswith(name) for name in BROKEN) for rule in rules), rules


@pytest.mark.parametrize("emails", [60, 300, 1000])
def test_each_odd_kind_and_each_caller_has_its_share(emails: int) -> None:
    odd = ("timeout", "reset", "lost")
    parts = [local_part_of(Weather(name="w", odd=odd), n, emails) for n in range(emails)]
    assert {part: parts.count(part) for part in odd} == dict.fromkeys(odd, max(2, emails // 100))
    assert len({sender_of(n) for n in range(emails)}) == 3
