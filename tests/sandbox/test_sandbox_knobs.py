"""Each knob, from Python and over HTTP."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError
from sandbox_receiver import Receiver, call, call_json, simple_mail, wait_for

from mail_service.sandbox import Sandbox

Send = Callable[..., str]
HARD = "bounce@simulator.amazonses.com"


def test_knobs_are_read_and_set_over_http(sandbox: Sandbox) -> None:
    address = f"{sandbox.url}/_sandbox/knobs"
    assert call_json(address)["repeat_events"] == 1
    told = call_json(address, {"repeat_events": 3, "send_quota": {"MaxSendRate": 14}})
    assert told["repeat_events"] == 3
    assert sandbox.knobs() == told == call_json(address)
    assert told["send_quota"]["MaxSendRate"] == 14


@pytest.mark.parametrize(
    "change",
    [
        {"nonsense": 1},
        {"repeat_events": 0},
        {"answer_delay_seconds": -1},
        {"outcome": "nothing"},
        {"sender_outcomes": {"ada@example.com": "nothing"}},
        {"hold_events": ["Sent"]},
        {"signature_version": "3"},
    ],
)
def test_a_bad_knob_is_refused_by_name_and_changes_nothing(
    change: dict[str, Any], sandbox: Sandbox
) -> None:
    before = sandbox.knobs()
    status, _, text = call(f"{sandbox.url}/_sandbox/knobs", {"seed": 9} | change)
    assert status == 400
    assert next(iter(change)) in text.decode()
    with pytest.raises(ValidationError):
        sandbox.knobs(**change)
    assert sandbox.knobs() == before


def test_answer_delay_holds_back_acceptances_and_refusals(send: Send, sandbox: Sandbox) -> None:
    sandbox.knobs(answer_delay_seconds=0.15)
    send("ada@example.com")
    with pytest.raises(Exception, match="Message rejected"):
        send("rejected@simulator.amazonses.com")
    wait_for(lambda: len(sandbox.log()) == 6)
    for rows in (sandbox.log()[:3], sandbox.log()[3:]):
        _, decided, answered = (row["at"] for row in rows)
        assert answered - decided >= 0.15


def test_event_delay_holds_back_the_events_only(
    send: Send, sandbox: Sandbox, subscribed: Receiver
) -> None:
    sandbox.knobs(event_delay_seconds=0.2)
    send("ada@example.com")
    answered = wait_for(lambda: [row for row in sandbox.log() if row["event"] == "answered"])
    wait_for(lambda: len(sandbox.deliveries()) == 2)
    assert sandbox.deliveries()[0]["at"] - answered[0]["at"] >= 0.19


def test_repeated_events_are_copies_with_the_same_sns_id(
    send: Send, sandbox: Sandbox, subscribed: Receiver
) -> None:
    sandbox.knobs(repeat_events=3)
    send("ada@example.com")
    wait_for(lambda: len(subscribed.posts) == 6)
    assert subscribed.kinds() == ["Send"] * 3 + ["Delivery"] * 3
    bodies = [body for _, body in subscribed.posts]
    assert len(set(bodies)) == 2
    assert [row["copy"] for row in sandbox.deliveries()] == [1, 2, 3] * 2


def test_reordered_events_never_come_in_their_natural_order(
    send: Send, sandbox: Sandbox, subscribed: Receiver
) -> None:
    sandbox.knobs(reorder_events=True)
    for number in range(5):
        send(HARD)
        wait_for(lambda wanted=2 * number + 2: len(subscribed.posts) == wanted)
        assert subscribed.kinds()[-2:] == ["Bounce", "Send"]


def test_the_same_seed_gives_the_same_order_again(client: Callable[..., Any], signer: Any) -> None:
    def orders(seed: int) -> list[str]:
        receiver = Receiver()
        try:
            with Sandbox(signer=signer, seed=seed) as sandbox:
                sandbox.subscribe(receiver.url, confirm=False)
                sandbox.knobs(reorder_events=True, repeat_events=2)
                ses = client("sesv2", sandbox.url)
                for number in range(4):
                    ses.send_email(**simple_mail("complaint@simulator.amazonses.com"))
                    wait_for(lambda wanted=6 * number + 6: len(receiver.posts) == wanted)
            return receiver.kinds()
        finally:
            receiver.close()

    assert orders(1) == orders(1)
    assert orders(1) != orders(2)


def test_held_events_wait_for_their_release(
    send: Send, sandbox: Sandbox, subscribed: Receiver
) -> None:
    sandbox.knobs(hold_events=["Send"])
    send("ada@example.com")
    wait_for(lambda: subscribed.kinds() == ["Delivery"])
    assert sandbox.held == 1
    assert call_json(f"{sandbox.url}/_sandbox")["held"] == 1
    assert sandbox.inbox()[0]["events"][0]["state"] == "held"
    assert call_json(f"{sandbox.url}/_sandbox/release", {}) == {"released": 1}
    wait_for(lambda: subscribed.kinds() == ["Delivery", "Send"])
    assert sandbox.release() == 0


def test_only_events_of_given_local_parts_are_held(
    client: Callable[..., Any], sandbox: Sandbox, subscribed: Receiver
) -> None:
    sandbox.knobs(hold_events=["Send"], hold_local_parts=["Slow"])
    ses = client("sesv2", sandbox.url)
    ses.send_email(**simple_mail("slow+a@simulator.amazonses.com"))
    ses.send_email(**simple_mail("ada@example.com"))
    wait_for(lambda: sorted(subscribed.kinds()) == ["Delivery", "Delivery", "Send"])
    assert sandbox.release() == 1
    wait_for(lambda: len(subscribed.posts) == 4)


def test_dropped_events_never_come(send: Send, sandbox: Sandbox, subscribed: Receiver) -> None:
    sandbox.knobs(drop_events=["Send", "Delivery"])
    send(HARD)
    wait_for(lambda: subscribed.kinds() == ["Bounce"])
    assert sandbox.inbox()[0]["events"][0]["state"] == "dropped"


def test_only_the_event_types_of_the_destination_are_published(
    send: Send, sandbox: Sandbox, subscribed: Receiver
) -> None:
    sandbox.knobs(event_types=["Bounce"])
    send(HARD)
    wait_for(lambda: subscribed.kinds() == ["Bounce"])


def test_a_paused_account_refuses_every_call(send: Send, sandbox: Sandbox) -> None:
    sandbox.knobs(sending_paused=True)
    with pytest.raises(Exception, match="Sending paused for this account"):
        send("ada@example.com")
    sandbox.knobs(sending_paused=False)
    assert send("ada@example.com")


def test_a_forced_outcome_holds_for_every_address(
    send: Send, sandbox: Sandbox, subscribed: Receiver
) -> None:
    sandbox.knobs(outcome="ooto")
    send("ada@example.com")
    wait_for(lambda: subscribed.kinds() == ["Send", "Delivery", "Bounce"])
    sandbox.knobs(outcome="throttle")
    with pytest.raises(Exception, match="Maximum sending rate"):
        send("success@simulator.amazonses.com")
    sandbox.knobs(outcome=None)
    assert send("ada@example.com")


def test_an_outcome_for_one_sender_leaves_the_others_alone(
    send: Send, sandbox: Sandbox, subscribed: Receiver
) -> None:
    sandbox.knobs(outcome="ooto", sender_outcomes={"Billing@example.com": "unverified"})
    with pytest.raises(Exception, match="not verified"):
        send("ada@example.com", FromEmailAddress="Billing <billing@example.com>")
    send("ada@example.com", FromEmailAddress="shop@example.com")
    wait_for(lambda: subscribed.kinds() == ["Send", "Delivery", "Bounce"])
    sandbox.knobs(outcome=None, sender_outcomes={})
    assert send("ada@example.com", FromEmailAddress="billing@example.com")


def test_the_signature_version_applies_to_every_topic(
    sns: Any, sandbox: Sandbox, subscribed: Receiver
) -> None:
    sandbox.knobs(signature_version="1")
    found = sns.get_topic_attributes(TopicArn=sandbox.topic_arn)["Attributes"]
    assert found["SignatureVersion"] == "1"
    sandbox.publish("x")
    assert subscribed.envelopes()[0]["SignatureVersion"] == "1"
