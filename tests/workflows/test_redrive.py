"""Redrive: what SNS gave up on ends in the tables as if there had been no outage."""

import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest

from mail_service.domain.outcomes import Accepted, Unknown
from mail_service.domain.suppression import ReleaseRule
from mail_service.errors import Unavailable
from mail_service.gateways.sqs import SqsDeadLetters
from mail_service.ports import DeadLetter
from mail_service.runtime import Runtime
from mail_service.workflows import dispatch, ingest, operate, reconcile, redrive
from mail_service.workflows.redrive import Redriven
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.signing import (
    FOREIGN_TOPIC,
    body_of,
    confirmation,
    make_reader,
    notification,
    rsa_key,
    sign,
)
from tests.steps import look, send_all, ses_event, write_email
from tests.workflows.conftest import Queue

BEGAN = datetime(2026, 11, 29, 6, tzinfo=UTC)
FORGED = [
    body_of(sign(notification("{}", MessageId="forged")) | {"Message": "changed"}),
    body_of(sign(notification("{}", MessageId="another-key"), key=rsa_key(number=1))),
    body_of(sign(notification("{}", MessageId="foreign", TopicArn=FOREIGN_TOPIC))),
    json.dumps(ses_event("Complaint")).encode(),
    b"not a letter of SNS",
]


@pytest.fixture
def rt(rt: Runtime) -> Runtime:
    return replace(rt, read_envelope=make_reader())


def letter(number: int, kind: str = "Bounce", **event: Any) -> bytes:
    """Give the envelope of an event as SNS would have posted it."""
    at = BEGAN + timedelta(seconds=number)
    text = json.dumps(ses_event(kind, **({"at": f"{at:%Y-%m-%dT%H:%M:%S}.000Z"} | event)))
    return body_of(
        sign(
            notification(
                text, MessageId=str(UUID(int=number)), Timestamp=f"{at:%Y-%m-%dT%H:%M:%S}.500Z"
            )
        )
    )


def posted(rt: Runtime, bodies: Iterable[bytes]) -> None:
    for body in bodies:
        ingest.accept(rt, {}, body)


# -- four hours of outage ----------------------------------------------------------------------------

MAILS = 36
KINDS = ("Send", "Delivery", "DeliveryDelay", "Bounce", "Complaint", "Reject", "Open")


def mail_of_four_hours(rt: Runtime, mailer: ScriptedMailer) -> None:
    for n in range(MAILS):
        mailer.answers(Accepted(provider_message_id=f"m-{n}"))
        write_email(rt, f"order-{n}", to=(f"a{n}@example.com", f"b{n}@example.com"))
    assert len(send_all(rt, MAILS)) == MAILS


def events_of_four_hours(sql: Sql) -> list[bytes]:
    """Some 200 events in their order: both shapes, repeats, and another application's among them."""
    rows = sql(
        "SELECT a.id::text AS tag, provider_message_id AS message_id,"
        " array_agg(r.address ORDER BY r.position) AS addresses"
        " FROM mail_service.send_attempts a JOIN mail_service.email_recipients r USING (email_id)"
        " GROUP BY 1, 2 ORDER BY message_id"
    )
    draw = random.Random(4)
    bodies: list[bytes] = []
    for row in rows:
        for kind in draw.sample(KINDS, k=draw.randint(3, len(KINDS))):
            whom = tuple(draw.sample(row["addresses"], k=draw.randint(1, 2)))
            tag = row["tag"] if draw.random() < 0.5 else None
            number = 1 + len(bodies) * 60
            bodies.append(
                letter(number, kind, tag=tag, message_id=row["message_id"], recipients=whom)
            )
        if draw.random() < 0.3:
            number = 1 + len(bodies) * 60
            bodies.append(letter(number, "Bounce", message_id=f"theirs-{len(bodies)}"))
    return bodies


def tables(sql: Sql) -> dict[str, Any]:
    """Give what is stored, but for ids that we drew and the times at which things came to us."""
    return {
        "events": sql(
            "SELECT topic_arn, sns_message_id, kind::text, status::text, provider_message_id,"
            " request_tag, attempt_id, occurred_at, facts, payload"
            " FROM mail_service.ses_events ORDER BY sns_message_id"
        ),
        "recipients": sql("SELECT * FROM mail_service.email_recipients ORDER BY id"),
        "suppressions": sql(
            "SELECT address_hash, address, reason::text, source, returns, released_at"
            " FROM mail_service.suppressions ORDER BY address_hash"
        ),
        "emails": sql("SELECT id, state::text, reason FROM mail_service.email_outbox ORDER BY id"),
        "attempts": sql("SELECT id, state::text FROM mail_service.send_attempts ORDER BY id"),
    }


_EVENTS_UNDONE = """
TRUNCATE mail_service.ses_events, mail_service.payload_allowances;
TRUNCATE mail_service.suppressions CASCADE;
UPDATE mail_service.email_recipients
SET delivered_at = NULL, bounced_at = NULL, bounce_type = NULL, bounce_subtype = NULL,
    complained_at = NULL, complaint_type = NULL, complaint_subtype = NULL, delayed_at = NULL,
    rejected_at = NULL;
"""


def test_four_hours_of_events_are_redriven_and_end_in_the_tables_of_no_outage(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql, queue: Queue
) -> None:
    mail_of_four_hours(rt, mailer)
    bodies = events_of_four_hours(sql)
    posted(rt, bodies)
    no_outage = tables(sql)
    assert len(no_outage["suppressions"]) > 10
    sql(_EVENTS_UNDONE)

    # Some were delivered after all; a queue keeps no order, and may hand out a letter twice.
    posted(rt, bodies[::17])
    shuffled = [*bodies, *bodies[::13]]
    random.Random(5).shuffle(shuffled)
    queue.put(*shuffled)
    end = redrive.redrive(rt, queue.letters)
    assert tables(sql) == no_outage
    assert (end.seen, end.left, end.complete) == (len(shuffled), 0, True)
    assert end.taken == {
        "stored": len(bodies) - len(bodies[::17]),
        "duplicate": len(shuffled) - len(bodies) + len(bodies[::17]),
    }
    assert queue.counted() == (0, 0)


def test_a_redriven_old_bounce_does_not_undo_a_later_release(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql, queue: Queue
) -> None:
    email = write_email(rt)
    send_all(rt)
    posted(rt, [letter(1)])
    (row,) = sql("SELECT id FROM mail_service.suppressions")
    operate.release(
        rt,
        row["id"],
        rule=ReleaseRule.ADDRESS_CONFIRMED,
        reason="answered",
        confirmed=False,
        by="test",
    )
    queue.put(letter(2), letter(3, at="no time at all"), letter(4, "Complaint"))
    assert redrive.redrive(rt, queue.letters).taken == {"stored": 3}
    assert look(rt, email).recipients[0].complained_at is not None
    assert sql.one("SELECT count(*) FROM mail_service.suppressions WHERE released_at IS NULL") == 0


def test_a_redriven_send_event_resolves_an_email_in_doubt(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql, queue: Queue
) -> None:
    mailer.answers(Unknown(error_class="read_timeout"))
    email = write_email(rt)
    (claim,) = send_all(rt)
    assert look(rt, email).email.state == "ambiguous"
    queue.put(letter(1, "Send", tag=str(claim.row.attempt_id)))
    redrive.redrive(rt, queue.letters)
    assert look(rt, email).email.state == "submitted"


# -- letters that can't be taken ---------------------------------------------------------------------


def test_what_can_not_be_believed_stays_in_the_queue_and_is_counted_by_cause(
    rt: Runtime, sql: Sql, queue: Queue
) -> None:
    write_email(rt)
    send_all(rt)
    queue.put(*FORGED, letter(1), *(letter(n) for n in range(2, 12)))
    before = sql.dump()
    end = redrive.redrive(rt, queue.letters)
    assert (end.taken, end.complete) == ({"stored": 11}, True)
    assert end.refused == {
        "bad_signature": 2,
        "foreign_topic": 1,
        "raw_delivery": 1,
        "not_json": 1,
    }
    assert queue.counted() == (len(FORGED), 0)
    counted = {
        row["cause"]: row["count"]
        for row in sql("SELECT cause, count FROM mail_service.webhook_rejections")
    }
    assert counted == end.refused
    # A second pass finds them again, and they have no effect again.
    assert redrive.redrive(rt, queue.letters).refused == end.refused
    after = sql.dump()
    assert after["accounts"] == before["accounts"]
    assert sql.one("SELECT count(*) FROM mail_service.ses_events") == 11


def test_a_dry_run_says_what_would_be_taken_and_changes_nothing(
    rt: Runtime, sql: Sql, queue: Queue
) -> None:
    write_email(rt)
    send_all(rt)
    posted(rt, [letter(1)])
    queue.put(letter(1), letter(2), *FORGED)
    before = sql.dump()
    end = redrive.redrive(rt, queue.letters, dry_run=True)
    assert end.taken == {"duplicate": 1, "stored": 1}
    assert sum(end.refused.values()) == len(FORGED)
    assert sql.dump() == before
    assert queue.counted() == (2 + len(FORGED), 0)


def test_an_offer_in_the_queue_is_confirmed_like_one_that_came(
    rt: Runtime, sql: Sql, queue: Queue
) -> None:
    asked: list[str] = []

    def confirm(topic_arn: str, token: str) -> str:
        asked.append(topic_arn)
        return f"{topic_arn}:sub"

    queue.put(body_of(sign(confirmation())))
    redrive.redrive(replace(rt, confirm_subscription=confirm), queue.letters)
    assert len(asked) == 1
    assert queue.counted() == (0, 0)


# -- interruptions -----------------------------------------------------------------------------------


def test_a_database_that_is_away_ends_the_pass_and_loses_nothing(
    rt: Runtime, sql: Sql, queue: Queue
) -> None:
    queue.put(*(letter(n) for n in range(1, 26)))
    tries: list[int] = []

    def away(headers: Any, body: bytes) -> Any:
        tries.append(1)
        raise Unavailable("no database connection within the time limit")

    with pytest.raises(Unavailable):
        redrive.redrive(replace(rt, read_envelope=away), queue.letters)
    assert len(tries) == redrive.FAULTS_IN_A_ROW
    assert queue.counted() == (25, 0)
    assert redrive.redrive(rt, queue.letters).taken == {"stored": 25}


def test_one_letter_whose_certificate_can_not_be_had_holds_nobody_up(
    rt: Runtime, sql: Sql, queue: Queue
) -> None:
    read = rt.read_envelope
    queue.put(*(letter(n) for n in range(1, 8)))

    def flaky(headers: Any, body: bytes) -> Any:
        if str(UUID(int=4)).encode() in body:
            raise Unavailable("the certificate could not be fetched")
        return read(headers, body)

    end = redrive.redrive(replace(rt, read_envelope=flaky), queue.letters)
    assert (end.taken, end.postponed, end.complete) == ({"stored": 6}, 1, True)
    assert queue.counted() == (1, 0)


def test_letters_about_emails_whose_rows_are_held_stay_and_hold_nobody_up(
    rt: Runtime, sql: Sql, queue: Queue
) -> None:
    held = [write_email(rt, f"order-{n}", to=(f"{n}@example.com",)) for n in range(4)]
    claims = dispatch.take(rt, len(held))
    queue.put(
        *(
            letter(n, "Send", tag=str(claim.row.attempt_id), message_id=f"m-{n}")
            for n, claim in enumerate(claims, 1)
        ),
        letter(9, message_id="of-another-application"),
    )
    with psycopg.connect(sql.url) as other:
        other.execute("SELECT FROM mail_service.email_outbox FOR UPDATE")
        end = redrive.redrive(rt, queue.letters)
    assert (end.taken, end.postponed, end.complete) == ({"stored": 1}, 4, True)
    assert queue.counted() == (4, 0)
    assert redrive.redrive(rt, queue.letters).taken == {"stored": 4}


class Interrupted:
    """A queue, but the process is stopped just before, or just after, letters are deleted."""

    def __init__(self, inner: SqsDeadLetters, *, after: bool) -> None:
        self._inner = inner
        self._after = after

    def waiting(self) -> int:
        return self._inner.waiting()

    def receive(self) -> Sequence[DeadLetter]:
        return self._inner.receive()

    def delete(self, receipts: Sequence[str]) -> None:
        if self._after:
            self._inner.delete(receipts)
        raise KeyboardInterrupt

    def give_back(self, receipts: Sequence[str]) -> None:
        self._inner.give_back(receipts)


@pytest.mark.parametrize("after", [False, True])
def test_a_pass_that_is_stopped_between_commit_and_deletion_loses_and_doubles_nothing(
    rt: Runtime, sql: Sql, queue: Queue, after: bool
) -> None:
    queue.put(*(letter(n) for n in range(1, 26)))
    with pytest.raises(KeyboardInterrupt):
        redrive.redrive(rt, Interrupted(queue.letters, after=after))
    seen, hidden = queue.counted()
    assert (seen, hidden) == ((15, 0) if after else (25, 0))
    assert sql.one("SELECT count(*) FROM mail_service.ses_events") == 10
    end = redrive.redrive(rt, queue.letters)
    assert end.taken == ({"stored": 15} if after else {"duplicate": 10, "stored": 15})
    assert sql.one("SELECT count(*) FROM mail_service.ses_events") == 25


class Forgetful:
    """A queue that shows letters again before their time is over, as SQS may."""

    def __init__(self, bodies: Sequence[bytes]) -> None:
        self.bodies = dict(enumerate(bodies))
        self.given_back: list[str] = []
        self._asked = 0

    def waiting(self) -> int:
        return len(self.bodies)

    def receive(self) -> Sequence[DeadLetter]:
        self._asked += 1
        return [
            DeadLetter(id=str(n), receipt=f"{n}-{self._asked}", body=body)
            for n, body in list(self.bodies.items())[:10]
        ]

    def delete(self, receipts: Sequence[str]) -> None:
        for receipt in receipts:
            del self.bodies[int(receipt.partition("-")[0])]

    def give_back(self, receipts: Sequence[str]) -> None:
        self.given_back.extend(receipts)


def test_letters_that_come_again_within_a_pass_end_it(rt: Runtime, sql: Sql) -> None:
    told: list[Redriven] = []
    forgetful = Forgetful([*FORGED, letter(1)])
    end = redrive.redrive(rt, forgetful, tell=told.append)
    assert (end.taken, sum(end.refused.values()), end.complete) == ({"stored": 1}, 5, True)
    assert [one.seen for one in told] == [6]
    assert forgetful.given_back == [f"{n}-2" for n in range(5)]


def test_a_queue_full_of_forgeries_ends_the_pass_before_too_many_are_hidden(
    rt: Runtime, queue: Queue
) -> None:
    queue.put(*(b"junk %d" % n for n in range(40)))
    end = redrive.redrive(rt, queue.letters, most_held=20)
    assert (end.refused, end.complete) == ({"not_json": 20}, False)
    assert queue.counted() == (40, 0)


def test_the_silence_of_an_outage_ends_with_its_redrive(
    rt: Runtime, sql: Sql, queue: Queue, capsys: pytest.CaptureFixture[str]
) -> None:
    write_email(rt)
    send_all(rt)
    sql.advance(4 * 3600)
    reconcile.sweep(rt)
    assert "events_silent" in capsys.readouterr().out
    queue.put(letter(1))
    redrive.redrive(rt, queue.letters)
    sql.advance(4 * 3600)
    reconcile.sweep(rt)
    assert "events_silent" not in capsys.readouterr().out
