"""SES events from the field: our facts are those that the index states (CASES_DIR)."""

import json
import os
from pathlib import Path

import pytest

from mail_service.domain.address import match_key
from mail_service.domain.events import EventKind, Notice, ProviderEvent, Unreadable
from mail_service.domain.ses_json import read_event

EVENTS = (
    Path(os.environ.get("CASES_DIR") or Path(__file__).resolve().parents[3] / "shared" / "cases")
    / "events"
)
pytestmark = pytest.mark.skipif(
    not EVENTS.is_dir(), reason=f"no cases from the field in {EVENTS}: set CASES_DIR"
)
KINDS = {
    "delivered": "delivery",
    "bounced": "bounce",
    "complained": "complaint",
    "delayed": "delay",
    "rejected": "reject",
}
NOT_EVENTS = {
    "message_plain_event_publishing_test.json": Notice,
    "message_subscription_succeeded_complaint_kind.json": Notice,
    "complaint_invalid_json_stray_parenthesis.json": Unreadable,
    "message_empty.json": Unreadable,
    "message_json_list.json": Unreadable,
    "message_double_encoded.json": Unreadable,
    "eventbridge_envelope.json": Unreadable,
}
OTHER_KINDS = {"mail_without_any_type.json", "event_type_unknown_new.json"}


def texts() -> dict[str, str]:
    """Give each case's SNS Message, as the index's layers say."""
    found = {}
    for name, entry in entries().items():
        text = (EVENTS / name).read_text(encoding="utf-8")
        match entry["layer"]:
            case "ses_message":
                found[name] = text
            case "message_text":
                case_ = json.loads(text)
                parts = case_.get("message_text_repeat", [])
                found[name] = case_.get("message_text") or "".join(t * n for t, n in parts)
            case "message_text_big":
                case_ = json.loads(text)
                fill = case_["fill_char"] * case_["fill_length"]
                found[name] = json.dumps(case_["message_template"]).replace("@FILL@", fill)
    return found


def entries() -> dict[str, dict]:
    path = EVENTS / "index.json"
    return {e["file"]: e for e in json.loads(path.read_bytes())["events"]} if path.is_file() else {}


TEXTS = texts()
ENTRIES = entries()


def read(name: str):
    return read_event(
        TEXTS[name], tag_name="mail_service_attempt", tag_header="X-Mail-Service-Attempt"
    )


def test_the_cases_cover_every_kind():
    read_kinds = {r.kind for r in map(read, TEXTS) if isinstance(r, ProviderEvent)}
    assert read_kinds == set(EventKind)


@pytest.mark.parametrize("name", [n for n in TEXTS if n not in NOT_EVENTS])
def test_an_event_gives_the_kind_the_id_and_the_facts_that_the_index_states(name):
    event, expect = read(name), ENTRIES[name]["expect"]
    assert isinstance(event, ProviderEvent)
    # Facts on a recipient that no call of ours named are dropped later, where events meet emails.
    sent_to = {match_key(a) for a in destinations(TEXTS[name])}
    facts = [
        [KINDS[f.kind], f.address or "*"]
        for f in event.facts
        if f.address is None or not sent_to or f.address in sent_to
    ]
    if expect["mail_message_id"] is not None:
        assert event.provider_message_id == expect["mail_message_id"]
        assert sorted(facts) == sorted(expect["facts"])
    stated = (
        ENTRIES[name]["kind"].lower().replace(" ", "_").replace("deliverydelay", "delivery_delay")
    )
    if name in OTHER_KINDS:
        assert event.kind is EventKind.OTHER
    elif stated in set(EventKind):
        assert event.kind == stated
    assert event.occurred_at is not None or "timestamp" not in TEXTS[name]
    assert event.request_tag is None


def destinations(text: str) -> list[str]:
    destination = json.loads(text)["mail"].get("destination", [])
    return destination if isinstance(destination, list) else []


@pytest.mark.parametrize(("name", "type_"), NOT_EVENTS.items())
def test_what_is_no_event_is_a_notice_or_unreadable_as_the_index_states(name, type_):
    assert name in TEXTS
    assert isinstance(read(name), type_)


def test_words_of_a_bounce_are_read_as_they_stand():
    [fact] = read("bounce_transient_mailboxfull_status_447_crlf_marks.json").facts
    assert (fact.type, fact.subtype) == ("Transient", "MailboxFull")
    [fact] = read("complaint_feedback_not_spam.json").facts
    assert fact.type == "not-spam"
    [fact] = read("complaint_account_suppression_list_no_feedback_type.json").facts
    assert (fact.type, fact.subtype) == (None, "OnAccountSuppressionList")
    [fact] = read("bounce_simulator_ooto_no_status_no_mta.json").facts
    assert (fact.type, fact.action) == ("Transient", None)
