"""Any permutation and multiplicity of an email's events ends in equal facts and suppressions (S12)."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mail_service.domain.outcomes import Accepted
from mail_service.runtime import Runtime
from mail_service.workflows import record
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.steps import bring, call, ses_event, take_one, write_email

NAMES = ("ada", "Bea", "cid")
BEGAN = datetime(2026, 11, 29, 10, tzinfo=UTC)
_numbers = count(1)

Event = dict[str, Any]

times = st.integers(0, 2).map(lambda n: f"{BEGAN + timedelta(seconds=n):%Y-%m-%dT%H:%M:%S}.000Z")
KINDS: dict[str, st.SearchStrategy[Event]] = {
    "Send": st.just({}),
    "Delivery": st.just({}),
    "DeliveryDelay": st.just({}),
    "Reject": st.just({}),
    "Rendering Failure": st.just({}),
    "Open": st.just({}),
    "Bounce": st.fixed_dictionaries(
        {
            "bounceType": st.sampled_from(["Permanent", "Transient", "Undetermined", "New"]),
            "bounceSubType": st.sampled_from(["General", "NoEmail"]),
            "feedbackId": st.sampled_from(["one", "two"]),
        }
    ),
    "Complaint": st.fixed_dictionaries(
        {"feedbackId": st.sampled_from(["one", "two"])},
        optional={
            "complaintFeedbackType": st.sampled_from(["abuse", "not-spam", "auth-failure"]),
            "complaintSubType": st.sampled_from([None, "OnAccountSuppressionList"]),
        },
    ),
}


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Event], list[int], list[int]]:
    """Draw some events, and two orders in which each comes at least once; -1 is the finalise.

    Of few kinds and few people each, so that they meet at the same fact.
    """
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=3, unique=True))
    people = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True))

    def event() -> Event:
        kind = draw(st.sampled_from(kinds))
        return {
            "kind": kind,
            "detail": draw(KINDS[kind]),
            "at": draw(times),
            "whom": draw(st.lists(st.sampled_from(people), min_size=1, max_size=2)),
            "spelling": draw(st.sampled_from(SPELLINGS)),
            "tagged": draw(st.booleans()),
            "identified": draw(st.booleans()),
            "legacy": draw(st.booleans()),
            "delayed": draw(st.booleans()),
        }

    told = [event() for _ in range(draw(st.integers(2, 5)))]
    each = [*range(len(told)), -1]

    def order() -> list[int]:
        again = draw(st.lists(st.sampled_from(each[:-1]), max_size=2))
        return draw(st.permutations([*each, *again]))

    return told, order(), order()


def quoted(address: str) -> str:
    local, _, domain = address.partition("@")
    return f'"{local}"@{domain}'


SPELLINGS = (str, str.upper, "Somebody <{}>".format, quoted)


def text_of(event: Event, domain: str, tag: str, message_id: str) -> Event:
    """Give an event about one mail, in the shape and the spelling that were drawn."""
    addresses = tuple(event["spelling"](f"{name}@{domain}") for name in event["whom"])
    tagged = event["tagged"] or not event["identified"]
    text = ses_event(
        event["kind"],
        tag=tag if tagged and not event["legacy"] else None,
        message_id=message_id if event["identified"] or event["legacy"] else None,
        at=event["at"],
        recipients=addresses,
        **event["detail"],
    )
    if event["legacy"] and event["kind"] in {"Bounce", "Complaint", "Delivery"}:
        text["notificationType"] = text.pop("eventType")
    if event["delayed"] and event["kind"] == "Bounce":
        for entry in text["bounce"]["bouncedRecipients"]:
            entry["action"] = "delayed"
    return text


def lived(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql, told: list[Event], order: list[int]
) -> Any:
    """Let one mail live through its history in an order; gives what is known at the end."""
    number = next(_numbers)
    domain, message_id = f"d{number}.example.com", f"m-{number}"
    mailer.answers(Accepted(provider_message_id=message_id))
    email = write_email(rt, f"key-{number}", to=tuple(f"{name}@{domain}" for name in NAMES))
    ended = call(rt, take_one(rt))
    tag = str(ended.row.attempt_id)

    def step(n: int) -> Callable[[], object]:
        if n < 0:
            return lambda: record.results(rt, [ended])
        # Every coming is an SNS message of its own: the same fact under another id.
        return lambda: bring(rt, text_of(told[n], domain, tag, message_id))

    for n in order:
        step(n)()
    return sql.one(_KNOWN, f"%@{domain}", email.email.id)


_KNOWN = """
SELECT jsonb_build_object(
    'recipients', (
        SELECT jsonb_agg(to_jsonb(r) - '{id,email_id,address,address_hash}'::text[]
                         ORDER BY position)
        FROM mail_service.email_recipients r WHERE email_id = o.id),
    'suppressions', (
        SELECT jsonb_agg(ARRAY[split_part(address, '@', 1), reason::text] ORDER BY address)
        FROM mail_service.suppressions WHERE address LIKE %s),
    'email', o.state, 'attempt', a.state, 'known', a.provider_message_id IS NOT NULL,
    'waiting', (SELECT count(*) FROM mail_service.ses_events WHERE status <> 'matched'))
FROM mail_service.email_outbox o JOIN mail_service.send_attempts a ON a.email_id = o.id
WHERE o.id = %s
"""


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(histories())
def test_any_permutation_and_multiplicity_of_an_emails_events_gives_equal_facts_and_suppressions(
    rt: Runtime,
    mailer: ScriptedMailer,
    sql: Sql,
    history: tuple[list[Event], list[int], list[int]],
) -> None:
    """Ids and arrival times apart; in both shapes, by tag or MessageId, before or after the finalise."""
    told, one, other = history
    known = lived(rt, mailer, sql, told, one)
    assert known == lived(rt, mailer, sql, told, other)
    assert known["waiting"] == 0
