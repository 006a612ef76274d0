"""One person is forgotten: no table holds the address, and what was promised about their mail stays."""

import json
from collections import Counter
from typing import Any
from uuid import UUID

import pytest

from mail_service.domain.address import keyed_hash
from mail_service.domain.deciding import Decision
from mail_service.domain.events import EventStatus
from mail_service.domain.outcomes import Accepted, Refused, Released, Unknown
from mail_service.domain.suppression import Listed, ReleaseRule, SuppressionReason
from mail_service.errors import Conflict, InvalidFields, NotFound
from mail_service.ports import TAG_HEADER, TAG_NAME
from mail_service.runtime import Runtime
from mail_service.store import erasure, ses_list
from mail_service.workflows import (
    decide,
    erase,
    observe,
    operate,
    record,
    replay,
    suppression_files,
)
from mail_service.workflows.dispatch import Claim, Ended
from mail_service.workflows.ingest import Taken
from tests.conftest import Sql
from tests.fakes import ScriptedMailer
from tests.steps import bring, call, look, send_all, ses_event, sign_up, take_one, write_email

ADA, BOB = "Ada.Byron@example.com", "bob@example.com"


def holding(sql: Sql, text: str = "byron") -> dict[str, list[Any]]:
    """Give every row of every table that holds a text, wherever in it."""
    found = {
        table: [row for row in rows if text in json.dumps(row, default=str).lower()]
        for table, rows in sql.dump().items()
    }
    return {table: rows for table, rows in found.items() if rows}


def erased(rt: Runtime, **options: Any) -> erase.Erased:
    return erase.address(rt, ADA, by="test", **options)


def test_no_table_holds_an_erased_address_whatever_happened_to_its_mail(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    account = sign_up(rt, ADA, name="Ada Byron")
    (claim,) = send_all(rt)
    tag = str(claim.row.attempt_id)
    for kind in ("Send", "Delivery", "Bounce", "Complaint", "DeliveryDelay", "Open"):
        bring(rt, ses_event(kind, tag=tag, message_id=None, recipients=(ADA.lower(),)))
    (standing,) = observe.list_suppressions(
        rt, address=ADA, reason=None, active=True, after=None, limit=2
    ).items
    operate.release(
        rt,
        standing.id,
        rule=ReleaseRule.CONSENT_RENEWED,
        reason=f"{ADA} wrote to us",
        confirmed=True,
        by="test",
    )
    mailer.answers(Refused(error_class="rejected"), Unknown(error_class="read_timeout"))
    refused = write_email(rt, "refused", (ADA, BOB), data={"name": "Ada Byron"})
    send_all(rt)
    doubtful = write_email(rt, "doubtful", (ADA,), reply_to=(ADA,))
    send_all(rt)
    pending = write_email(rt, "pending", (ADA,))
    bring(rt, ses_event("Bounce", message_id="of-another-application", recipients=(ADA.upper(),)))
    bring(rt, f"no event at all, about <{ADA}>")
    operate.suppress(rt, address=ADA.lower(), note=f"{ADA.upper()} asked for it", by="test")
    sql("UPDATE mail_service.suppressions SET ses_address = 'ADA.BYRON@example.com'")
    decide.requeue(rt, refused.email.id, reason=f"for {ADA}", not_after=None, by="x")
    decide.cancel(rt, refused.email.id, by="x", why=f"{ADA} wants nothing")
    key = operate.create_key(rt.db, key_id=UUID(int=77), name="shop", scopes=("send",))
    sql(
        "INSERT INTO mail_service.idempotent_answers (api_key_id, route, key_hash, body_hash, status,"
        " answer) VALUES (%s, '/v1/accounts', 'k', 'b', 201, %s)",
        *(key.id, json.dumps({"email": ADA})),
    )
    assert len(holding(sql)) >= 7

    done = erased(rt)

    assert holding(sql) == {}
    assert (done.accounts, done.emails, done.cancelled) == (1, 4, 1)
    assert (done.ambiguous, done.in_call) == ([doubtful.email.id], [])
    assert (done.suppressions, done.payloads, done.answers) == (2, 2, 1)
    assert look(rt, pending).email.state == "cancelled"
    assert [one.address for one in look(rt, refused).recipients] == [None, BOB]
    facts = look(rt, account).recipients[0]
    assert None not in {facts.delivered_at, facts.bounced_at, facts.complained_at}
    again = erased(rt)
    assert (again.accounts, again.emails, again.payloads) == (0, 0, 0)


def test_a_repeated_dedup_key_is_still_recognised_after_erasure(rt: Runtime) -> None:
    email = write_email(rt, "order-7", (ADA,))
    erased(rt)
    assert write_email(rt, "order-7", (ADA,)).email.id == email.email.id
    with pytest.raises(Conflict):
        write_email(rt, "order-7", (BOB,))


def test_a_suppression_outlives_the_erasure_of_its_address(
    rt: Runtime, mailer: ScriptedMailer
) -> None:
    operate.suppress(rt, address=ADA, note=None, by="test")
    erased(rt)
    email = write_email(rt, to=(ADA,))
    send_all(rt)
    assert mailer.calls == []
    assert look(rt, email).email.state == "suppressed"


KINDS = (
    *("Send", "Delivery", "Bounce", "Complaint", "DeliveryDelay", "Reject", "Rendering Failure"),
    *("Open", "Click", "Subscription", "Something New"),
)
ABOUT = ("its tag", "its MessageId", "a call in doubt", "no call that is known", "inbound mail")


def later_event(kind: str, about: str, claim: Claim, doubtful: Claim, *, plain: bool) -> Any:
    """Give an event about the erased person; ``plain``: as an identity's notification, without tags."""
    known = kind if kind not in {"Click", "Subscription", "Something New"} else "Open"
    event = ses_event(known, message_id=None, recipients=(ADA.upper(), BOB))
    event["eventType"] = "Received" if about == "inbound mail" else kind
    tag = {"its tag": claim, "a call in doubt": doubtful}.get(about)
    if about == "its MessageId":
        event["mail"]["messageId"] = MESSAGE_ID
    elif about == "no call that is known":
        event["mail"]["messageId"] = "of-another-application"
    if tag is not None and plain:
        header = {"name": TAG_HEADER, "value": str(tag.row.attempt_id)}
        event["mail"]["headers"] = [header, {"name": "To", "value": f"Ada Byron <{ADA}>"}]
    elif tag is not None:
        event["mail"]["tags"] = {TAG_NAME: [str(tag.row.attempt_id)]}
    if plain:
        event["notificationType"] = event.pop("eventType")
    return event


MESSAGE_ID = "message-of-the-known-call"


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_later_is_kept_without_the_address(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql, kind: str
) -> None:
    mailer.answers(Accepted(provider_message_id=MESSAGE_ID), Unknown(error_class="read_timeout"))
    write_email(rt, to=(ADA, BOB))
    (claim,) = send_all(rt)
    write_email(rt, "doubtful", (ADA, BOB))
    (doubtful,) = send_all(rt)
    erased(rt)
    for about in ABOUT:
        for plain in (False, True):
            event = later_event(kind, about, claim, doubtful, plain=plain)
            assert bring(rt, event, f"{about} {plain}") is Taken.STORED
            assert bring(rt, event, f"{about} {plain}") is Taken.DUPLICATE
    assert holding(sql) == {}
    stored = sql("SELECT status::text AS s, payload FROM mail_service.ses_events")
    assert Counter(row["s"] for row in stored) == {"matched": 6, "unmatched": 2, "foreign": 2}
    assert {row["payload"] for row in stored} == {None}


def test_facts_and_suppressions_of_what_comes_later_stand(rt: Runtime, sql: Sql) -> None:
    email = write_email(rt, to=(ADA, BOB))
    (claim,) = send_all(rt)
    erased(rt)
    tag = str(claim.row.attempt_id)
    bring(rt, ses_event("Bounce", tag=tag, message_id=None, recipients=(ADA,)))
    assert [one.status for one in look(rt, email).recipients] == ["bounced", "submitted"]
    (standing,) = sql("SELECT reason::text, address FROM mail_service.suppressions")
    assert standing == {"reason": "bounce", "address": None}


@pytest.mark.parametrize(
    "text",
    [
        f"no event at all, about <{ADA}>",
        json.dumps({"mail": 7, "for": f"Ada Byron\n<{ADA.upper()}>"}).replace("@", "\\u0040"),
        json.dumps({"no": "event", "text": f'"{ADA.split("@")[0]}"@example.com'}),
    ],
)
def test_a_later_text_that_is_no_event_is_kept_without_the_address_too(
    rt: Runtime, sql: Sql, text: str
) -> None:
    erased(rt)
    bring(rt, text)
    assert sql("SELECT status::text, payload FROM mail_service.ses_events") == [
        {"status": "unparseable", "payload": None}
    ]


def test_what_comes_later_about_others_keeps_its_text(rt: Runtime, sql: Sql) -> None:
    write_email(rt, to=(BOB,))
    (claim,) = send_all(rt)
    erased(rt)
    others = (BOB, "adaxbyron@example.com", "x.ada.byron@example.com", "ada.byron@example.com.au")
    bring(rt, ses_event("Bounce", tag=str(claim.row.attempt_id), recipients=others))
    bring(rt, ses_event("Bounce", message_id="of-another-application", recipients=others))
    bring(rt, f"no event at all, about {others}")
    assert sql.one("SELECT count(payload) FROM mail_service.ses_events") == 3


def test_an_event_that_finds_its_erased_call_later_loses_its_text(rt: Runtime, sql: Sql) -> None:
    """Its text says who it is about in a way that nobody can search for."""
    write_email(rt, to=(ADA,))
    (claim,) = send_all(rt)
    early = ses_event("Open", message_id="not-yet-saved", recipients=())
    early["open"]["link"] = "https://example.com/?who=ada.byron%40example.com"
    tagged = early | {"mail": {"tags": {TAG_NAME: [str(claim.row.attempt_id)]}}}
    bring(rt, early)
    erased(rt)
    bring(rt, tagged)
    assert sql.one("SELECT count(payload) FROM mail_service.ses_events") == 1
    sql("UPDATE mail_service.send_attempts SET provider_message_id = 'not-yet-saved'")
    replay.replay(rt, [EventStatus.UNMATCHED])
    assert sql.one("SELECT count(payload) FROM mail_service.ses_events") == 0
    assert sql.one("SELECT count(attempt_id) FROM mail_service.ses_events") == 2


@pytest.mark.parametrize("status", ["matched", "unmatched", "foreign", "unparseable"])
def test_a_replay_leaves_no_text_about_an_erased_mailbox(
    rt: Runtime, sql: Sql, status: str
) -> None:
    """As one that was stored by a release that did not look, or in the moment of the erasure."""
    write_email(rt, to=(ADA,))
    (claim,) = send_all(rt)
    texts = {
        "matched": ses_event("Open", tag=str(claim.row.attempt_id), recipients=(ADA,)),
        "unparseable": f"no event at all, about <{ADA}>",
    }
    bring(rt, texts.get(status, ses_event("Open", message_id="x", recipients=(ADA,))))
    bring(rt, ses_event("Open", message_id="y", recipients=(BOB,)))
    if status == "foreign":
        sql("UPDATE mail_service.ses_events SET status = 'foreign'")
    with rt.db.transaction() as tx:
        erasure.remember(tx, keyed_hash(rt.address_key, ADA), "test")
    replay.replay(rt, [EventStatus(status)])
    assert "ses_events" not in holding(sql)
    assert sql.one("SELECT count(payload) FROM mail_service.ses_events") == 1


@pytest.mark.parametrize("source", ["person", "file", "list of SES"])
def test_a_later_suppression_of_an_erased_mailbox_has_no_address(
    rt: Runtime, sql: Sql, source: str
) -> None:
    erased(rt)
    if source == "person":
        operate.suppress(rt, address=ADA, note=None, by="test")
    elif source == "file":
        done = suppression_files.import_lines(
            rt, ["address\n", f"{ADA}\n"], by="test", report=lambda bad: None
        )
        assert done.added == 1
    else:
        hashed = observe.address_hash(rt, "address", ADA)
        for _ in range(2):
            with rt.db.transaction() as tx:
                entry = Listed(address=ADA, reason=SuppressionReason.BOUNCE, at=tx.now)
                ses_list.take_in(tx, {hashed: (rt.new_id(), entry)})
    (row,) = sql("SELECT released_at, ses_state::text FROM mail_service.suppressions")
    assert row["released_at"] is None
    assert row["ses_state"] != "pending_put"
    assert holding(sql) == {}


def test_a_call_under_way_is_waited_for_and_then_forgotten(rt: Runtime, sql: Sql) -> None:
    email = write_email(rt, to=(ADA,))
    claim = take_one(rt)
    assert erased(rt).in_call == [email.email.id]
    assert set(holding(sql)) == {"email_recipients"}
    waits: list[float] = []

    def pause(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            record.results(rt, [call(rt, claim)])

    done = erased(rt, pause=pause)
    assert (done.in_call, done.emails, len(waits)) == ([], 1, 3)
    assert look(rt, email).email.state == "submitted"
    assert holding(sql) == {}


def test_a_call_that_does_not_end_is_not_waited_for_for_ever(rt: Runtime) -> None:
    write_email(rt, to=(ADA,))
    take_one(rt)
    waits: list[float] = []
    assert len(erased(rt, pause=waits.append).in_call) == 1
    assert len(waits) <= rt.settings.lease_seconds + rt.settings.call_seconds + 2


def test_a_call_that_is_given_back_is_cancelled_after_all(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    email = write_email(rt, to=(ADA,))
    claim = take_one(rt)
    waits: list[float] = []

    def pause(seconds: float) -> None:
        if not waits:
            assert record.results(rt, [Ended(row=claim.row, result=Released())]) == []
        waits.append(seconds)

    assert erased(rt, pause=pause).cancelled == 1
    assert look(rt, email).email.state == "cancelled"
    assert mailer.calls == []
    assert holding(sql) == {}


def test_doubt_about_an_erased_email_can_be_ended_but_not_sent_again(
    rt: Runtime, mailer: ScriptedMailer, sql: Sql
) -> None:
    mailer.answers(Unknown(error_class="read_timeout"))
    email = write_email(rt, to=(ADA,))
    send_all(rt)
    attempt_id = look(rt, email).attempts[0].id
    erased(rt)
    sql.advance(600)
    asked: dict[str, Any] = {"reason": "r", "attempt_id": attempt_id, "by": "x"}
    with pytest.raises(Conflict, match="erased"):
        decide.resolve(rt, email.email.id, decision=Decision.RESEND, **asked)
    done = decide.resolve(rt, email.email.id, decision=Decision.ABANDON, **asked)
    assert done.email.state == "failed"


def test_an_account_is_erased_by_its_id_and_its_owner_may_come_back(rt: Runtime, sql: Sql) -> None:
    first = sign_up(rt, ADA).email.account_id
    assert first is not None
    assert erase.account(rt, first, by="test").accounts == 1
    assert erase.account(rt, first, by="test").accounts == 0
    assert observe.account(rt, first).email is None
    again = sign_up(rt, ADA).email.account_id
    assert again != first
    with pytest.raises(NotFound):
        erase.account(rt, UUID(int=12345), by="test")


@pytest.mark.parametrize(
    "odd", ["o'neil+x_y%z@example.com", "a&b{c}|d^$?*@example.com", "#~!/=-`@xn--bcher-kva.example"]
)
def test_every_character_of_an_address_means_itself(rt: Runtime, sql: Sql, odd: str) -> None:
    bring(rt, f"no event at all, about {odd.upper()}")
    bring(rt, "no event at all, about somebody else")
    assert erase.address(rt, odd, by="test").payloads == 1
    assert len(sql("SELECT id FROM mail_service.ses_events WHERE payload IS NOT NULL")) == 1


def test_what_is_no_address_is_refused(rt: Runtime) -> None:
    with pytest.raises(InvalidFields):
        erase.address(rt, "nobody", by="test")


def test_nobody_else_is_touched(rt: Runtime, sql: Sql) -> None:
    key = operate.create_key(rt.db, key_id=UUID(int=77), name="shop", scopes=("send",))
    others = (
        "adaxbyron@example.com",
        "x.ada.byron@example.com",
        "ada.byron@example.com.example.org",
    )
    for n, other in enumerate(others):
        write_email(rt, f"order-{n}", (other,), data={"name": other})
        sql(
            "INSERT INTO mail_service.idempotent_answers VALUES (%s, '/', %s, 'b', 201, %s)",
            *(key.id, str(n), json.dumps({"email": other})),
        )
        operate.suppress(rt, address=other, note=f"not {other}", by="test")
    before = sql.dump()
    erased(rt)
    after = sql.dump()
    before.pop("erased_addresses")
    assert len(after.pop("erased_addresses")) == 1
    assert after == before
