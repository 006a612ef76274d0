"""The auditor sees each broken promise in evidence that was made up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.campaign.auditor import Evidence
from tests.campaign.test_auditor import T0, call
from tests.chaos.auditor import judge
from tests.chaos.evidence import Found
from tests.chaos.load import Stopped, Submitted
from tests.chaos.people import Decided

TO = "someone@example.com"
STOPPED = "stopped@example.com"


def wire(event: str, message_id: str | None = None, seconds: float = 1, **more: Any) -> Any:
    row = call(event, "tag-1", message_id, seconds)
    return row | {"recipients": [TO], "behaviour": "success", "status": 200} | more


def told(event: str, sns_id: str, **more: Any) -> dict[str, Any]:
    row = {"type": "Notification", "event": event, "message_id": sns_id, "status": 200}
    return row | {"provider_message_id": "message-1"} | more


def moved(before: str | None, after: str, actor: str, tag: str | None = None) -> dict[str, Any]:
    at = T0 + timedelta(seconds=10)
    return {
        "email_id": "email-1",
        "from_state": before,
        "to_state": after,
        "actor": actor,
        "attempt_id": tag,
        "at": at,
    }


ATTEMPT: dict[str, Any] = {
    "id": "tag-1",
    "request_tag": "tag-1",
    "email_id": "email-1",
    "number": 1,
    "epoch": 0,
    "state": "accepted",
    "provider_message_id": "message-1",
    "error_class": None,
    "started_at": T0,
    "begun": T0,
    "worker": "worker-1",
    "addresses": [TO],
}
EMAIL: dict[str, Any] = {
    "id": "email-1",
    "account_id": None,
    "dedup_key": "key-1",
    "state": "submitted",
    "reason": None,
    "epoch": 0,
    "attempts": 1,
}
EVENT: dict[str, Any] = {
    "sns_message_id": "sns-1",
    "status": "matched",
    "attempt_id": "tag-1",
    "request_tag": "tag-1",
    "provider_message_id": "message-1",
}
FACTS: dict[str, Any] = {
    "email_id": "email-1",
    "address": TO,
    "delivered_at": T0,
    "bounced_at": None,
    "complained_at": None,
    "delayed_at": None,
}
SUPPRESSED: dict[str, Any] = {
    "address": STOPPED,
    "was": None,
    "became": "manual",
    "released": False,
    "at": T0,
}
HOLD: dict[str, Any] = {"scope": "account", "opened_at": T0, "cleared_at": None, "probes": []}


def good() -> Found:
    """One email that was accepted, delivered and told of; another address that is suppressed."""
    calls = [wire("arrived"), wire("accepted", "message-1"), wire("answered", "message-1", 1.1)]
    deliveries = [told("Send", "sns-1"), told("Delivery", "sns-2")]
    return Found(
        campaign=Evidence(
            answered=[],
            unanswered=[],
            calls=calls,
            deliveries=deliveries,
            accounts=[],
            emails=[EMAIL],
            attempts=[ATTEMPT],
            transitions=[],
        ),
        submitted=[Submitted("key-1", TO, "email-1", created=True)],
        stopped=[Stopped(STOPPED, "suppression-1")],
        forged={"forged-1": [403]},
        emails=[EMAIL],
        attempts=[ATTEMPT],
        transitions=[
            moved(None, "pending", "key"),
            moved("pending", "sending", "worker", "tag-1"),
            moved("sending", "submitted", "worker", "tag-1"),
        ],
        events=[EVENT, EVENT | {"sns_message_id": "sns-2"}],
        recipients=[FACTS],
        suppressions=[{"address": STOPPED, "reason": "manual", "active": True}],
        suppressed=[SUPPRESSED],
    )


def doubtful(e: Found, *calls: Any, **attempt: Any) -> Found:
    """The email in doubt, with nothing told about it."""
    email = EMAIL | {"state": "ambiguous"}
    attempts = [ATTEMPT | {"state": "unknown", "provider_message_id": None} | attempt]
    of_campaign = replace(
        e.campaign, calls=list(calls), deliveries=[], emails=[email], attempts=attempts
    )
    return replace(
        e,
        campaign=of_campaign,
        emails=[email],
        attempts=attempts,
        events=[],
        transitions=[*e.transitions[:2], moved("sending", "ambiguous", "worker", "tag-1")],
    )


def broken(found: Found) -> set[str]:
    return {verdict.rule for verdict in judge(found) if verdict.violations}


def test_a_good_history_breaks_no_rule() -> None:
    assert broken(good()) == set()


def test_doubt_with_a_reason_breaks_no_rule() -> None:
    hung = [wire("arrived"), wire("accepted", "message-1"), wire("hung")]
    assert broken(doubtful(good(), *hung)) == set()
    answered = [*hung[:2], wire("answered", "message-1", 1.1)]
    assert broken(doubtful(good(), *answered)) != set()
    assert (
        broken(replace(doubtful(good(), *answered), hurt={"worker-1": [T0.timestamp() + 3]}))
        == set()
    )
    assert broken(replace(doubtful(good(), *answered), hurt={"worker-1": [T0.timestamp() + 99]}))


def row(field: str, *rows: Any) -> Callable[[Found], Found]:
    return lambda e: replace(e, **{field: [*getattr(e, field), *rows]})


def rows(field: str, *rows: Any) -> Callable[[Found], Found]:
    return lambda e: replace(e, **{field: list(rows)})


def world(**changes: Any) -> Callable[[Found], Found]:
    return lambda e: replace(e, campaign=replace(e.campaign, **changes))


ASKED = Decided("email-1", "tag-1", "resend", sure=True)
LATE = T0 + timedelta(seconds=5)
SPOILED: dict[str, tuple[str, Callable[[Found], Found]]] = {
    "a key has another email": ("S2 S3", rows("submitted", Submitted("key-1", TO, "e-2", False))),
    "a key took two payloads": ("S2 S3", rows("payloads_taken_twice", "key-1")),
    "an epoch nobody decided": ("S5: every", rows("emails", EMAIL | {"epoch": 1})),
    "submitted and never accepted": ("S7: submitted", world(calls=[wire("arrived")])),
    "moved on another's token": (
        "S8: a sending",
        rows(
            "transitions",
            *good().transitions[:2],
            moved("sending", "submitted", "worker", "tag-0"),
        ),
    ),
    "a lease that ended early": (
        "S8: a lease",
        row("transitions", moved("sending", "ambiguous", "sweep", "tag-1") | {"at": LATE}),
    ),
    "an edge that is not drawn": ("S15", row("transitions", moved("submitted", "pending", "key"))),
    "refused too often": (
        "S16: counted",
        rows(
            "attempts",
            *[
                ATTEMPT | {"request_tag": f"{n}", "number": n, "state": "retryable"}
                for n in range(1, 11)
            ],
        ),
    ),
    "begun under a hold": ("S16: under", rows("holds", HOLD | {"opened_at": T0 - 9 * (LATE - T0)})),
    "a decision without its row": ("S18", rows("decided", ASKED)),
    "an attempt is missing": ("S19", rows("emails", EMAIL | {"attempts": 2})),
    "still pending": ("L1 L2", rows("emails", EMAIL | {"state": "pending"})),
    "failed without a reason": ("what failed", rows("emails", EMAIL | {"state": "failed"})),
    "called though suppressed": ("S10: an address", rows("stopped", Stopped(TO, "s"))),
    "claimed though suppressed": (
        "S10: no claim",
        row("suppressed", SUPPRESSED | {"address": TO, "at": T0 - timedelta(seconds=9)}),
    ),
    "a suppression was lifted": ("S11: a supp", row("suppressed", SUPPRESSED | {"released": True})),
    "a suppression is gone": ("S11: whoever", rows("suppressions")),
    "suppressed for nothing": ("S10: what", rows("emails", EMAIL | {"state": "suppressed"})),
    "told and not stored": ("S12", rows("events", EVENT)),
    "stored twice": ("S12", row("events", EVENT)),
    "a genuine event was refused": (
        "S12",
        world(deliveries=[told("Send", "sns-1"), told("Send", "sns-3", status=403)]),
    ),
    "a delivery hung": (
        "L8",
        world(deliveries=[told("Send", "s", status=None, error="TimeoutError")]),
    ),
    "a forgery was taken": ("S13", lambda e: replace(e, forged={"forged-1": [503, 200]})),
    "an event of nobody": ("S13", row("events", EVENT | {"sns_message_id": "sns-9"})),
    "attached to another's attempt": (
        "S14",
        rows("events", EVENT | {"request_tag": "tag-9"}, EVENT | {"sns_message_id": "sns-2"}),
    ),
    "a lease that nobody ended": (
        "L2 L3",
        row(
            "transitions",
            moved("sending", "ambiguous", "sweep", "tag-1") | {"at": T0 + timedelta(seconds=99)},
        ),
    ),
    "a transaction that waited": ("S20", rows("idle", "idle in transaction for 2 s")),
    "what can't be rendered went out": ("L6 S16", lambda e: replace(e, poisoned={"key-1"})),
    "a fact does not show": ("L4: each", rows("recipients", FACTS | {"delivered_at": None})),
}


LEASED_FOR = 6.0
FOUND_AT = T0.timestamp() + LEASED_FOR + 20
"""The lease is found out 20 s after its end, of which 6 may pass."""


@pytest.mark.parametrize(
    ("excuse", "enough"),
    [
        ({}, False),
        ({"nobody_there": [(FOUND_AT - 20, FOUND_AT - 5)]}, True),
        ({"nobody_there": [(FOUND_AT - 20, FOUND_AT - 10), (FOUND_AT - 12, FOUND_AT - 5)]}, True),
        ({"nobody_there": [(FOUND_AT - 20, FOUND_AT - 10)] * 2}, False),
        ({"nobody_there": [(FOUND_AT - 60, FOUND_AT - 21), (FOUND_AT, FOUND_AT + 60)]}, False),
        # All must have healed 10 s after the database came back.
        ({"away": [(FOUND_AT - 25, FOUND_AT - 15)]}, True),
        ({"away": [(FOUND_AT - 25, FOUND_AT - 18)]}, False),
        ({"locked": {"email-1": [(FOUND_AT - 18, FOUND_AT - 1)]}}, True),
        ({"locked": {"email-2": [(FOUND_AT - 18, FOUND_AT - 1)]}}, False),
    ],
)
def test_a_lease_may_end_late_only_while_nobody_could_end_it(
    excuse: dict[str, Any], enough: bool
) -> None:
    found = datetime.fromtimestamp(FOUND_AT, UTC)
    late = doubtful(good(), wire("arrived"), wire("hung"))
    late.transitions[-1] |= {"at": found, "actor": "sweep"}
    rules = broken(replace(late, **excuse))
    assert any(rule.startswith("L2 L3") for rule in rules) is not enough, rules


def test_to_look_for_the_calls_of_a_tag_adds_none() -> None:
    found = doubtful(good(), state="unknown")
    assert broken(found) == {rule for rule in broken(found) if "doubt" in rule or "ambig" in rule}
    assert broken(found), "an email that never left and was nobody's victim has no reason for doubt"
    assert found.calls == {}


@pytest.mark.parametrize("what", SPOILED)
def test_a_broken_promise_is_seen(what: str) -> None:
    rule, spoil = SPOILED[what]
    assert any(seen.startswith(rule) for seen in broken(spoil(good()))), broken(spoil(good()))
