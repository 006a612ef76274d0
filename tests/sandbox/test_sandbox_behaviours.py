"""Every address of the simulator: the answer of the call, the log of the provider, the events."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError, ReadTimeoutError
from sandbox_receiver import Receiver, simple_mail, wait_for

from mail_service.sandbox import BEHAVIOURS, Sandbox

Send = Callable[..., str]


def at(name: str) -> str:
    return f"{name}+label@simulator.amazonses.com"


def logged(sandbox: Sandbox, last: str) -> list[str]:
    """The events of the log once `last` is among them."""
    wait_for(lambda: sandbox.log() and sandbox.log()[-1]["event"] == last)
    return [row["event"] for row in sandbox.log()]


FATES: dict[str, list[str]] = {
    "success": ["Send", "Delivery"],
    "bounce": ["Send", "Bounce"],
    "complaint": ["Send", "Delivery", "Complaint"],
    "ooto": ["Send", "Delivery", "Bounce"],
    "suppressionlist": ["Send", "Bounce"],
    "virus": ["Reject"],
    "delayed": ["Send", "DeliveryDelay", "Delivery"],
    "early": ["Send", "Delivery"],
}


@pytest.mark.parametrize("name", FATES)
def test_an_accepted_mail_has_the_events_of_its_address(
    name: str, send: Send, sandbox: Sandbox, subscribed: Receiver
) -> None:
    message_id = send(at(name))
    wait_for(lambda: len(subscribed.posts) == len(FATES[name]))
    assert subscribed.kinds() == FATES[name]
    assert {event["mail"]["messageId"] for event in subscribed.events()} == {message_id}
    assert logged(sandbox, "answered") == ["arrived", "accepted", "answered"]


def test_a_real_address_and_an_unknown_simulator_address_behave_as_success(
    send: Send, subscribed: Receiver
) -> None:
    send("ada@example.com", "nobody@simulator.amazonses.com")
    wait_for(lambda: len(subscribed.posts) == 3)
    assert subscribed.kinds() == ["Send", "Delivery", "Delivery"]


def test_local_part_and_domain_of_the_simulator_ignore_case(
    send: Send, subscribed: Receiver
) -> None:
    send("BOUNCE@Simulator.AmazonSES.com")
    wait_for(lambda: len(subscribed.posts) == 2)
    assert subscribed.kinds() == ["Send", "Bounce"]


def test_each_recipient_has_a_fate_of_its_own(send: Send, subscribed: Receiver) -> None:
    send(at("success"), at("bounce"), at("complaint"))
    wait_for(lambda: len(subscribed.posts) == 5)
    bodies = subscribed.events()
    assert [one["eventType"] for one in bodies] == [
        "Send",
        "Delivery",
        "Bounce",
        "Delivery",
        "Complaint",
    ]
    assert bodies[1]["delivery"]["recipients"] == [at("success")]
    assert bodies[2]["bounce"]["bouncedRecipients"][0]["emailAddress"] == at("bounce")
    assert bodies[4]["complaint"]["complainedRecipients"] == [{"emailAddress": at("complaint")}]


REFUSALS = {
    "throttle": (429, "TooManyRequestsException", "Maximum sending rate exceeded."),
    "quota": (400, "LimitExceededException", "Daily message quota exceeded."),
    "rejected": (400, "MessageRejected", "Message rejected"),
    "paused": (400, "MessageRejected", "Sending paused for this account. For more information, "),
    "expired": (
        403,
        "ExpiredTokenException",
        "The security token included in the request is expired",
    ),
    "unverified": (
        400,
        "MessageRejected",
        "Email address is not verified. The following identities failed the check in region "
        "EU-WEST-1: hello@example.com",
    ),
    "refuse503": (503, "ServiceUnavailable", "Service is temporarily unavailable."),
    "throttleonce": (429, "TooManyRequestsException", "Maximum sending rate exceeded."),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refused_call_is_not_accepted_and_has_no_events(
    name: str, send: Send, sandbox: Sandbox, subscribed: Receiver
) -> None:
    with pytest.raises(ClientError) as caught:
        send(at(name))
    response = caught.value.response
    status, code, text = REFUSALS[name]
    assert response["ResponseMetadata"]["HTTPStatusCode"] == status
    assert response["Error"]["Code"] == code
    assert response["Error"]["Message"].startswith(text)
    assert logged(sandbox, "answered") == ["arrived", "refused", "answered"]
    assert sandbox.inbox() == []
    assert subscribed.posts == []


def test_throttleonce_refuses_the_first_call_for_each_exact_address(send: Send, ses: Any) -> None:
    for address in (at("throttleonce"), "throttleonce+other@simulator.amazonses.com"):
        with pytest.raises(ses.exceptions.TooManyRequestsException):
            send(address)
        assert send(address)
        assert send(address)


@pytest.mark.parametrize(("name", "status"), [("error500", 500), ("error503", 503)])
def test_an_error_answer_can_hide_an_acceptance(
    name: str, status: int, send: Send, sandbox: Sandbox, subscribed: Receiver
) -> None:
    with pytest.raises(ClientError) as caught:
        send(at(name))
    assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
    assert logged(sandbox, "answered") == ["arrived", "accepted", "answered"]
    assert sandbox.log()[-1]["status"] == status
    wait_for(lambda: subscribed.kinds() == ["Send", "Delivery"])


def test_garbage_is_a_200_without_a_message_id_for_an_accepted_mail(
    ses: Any, sandbox: Sandbox, subscribed: Receiver
) -> None:
    answer = ses.send_email(**simple_mail(at("garbage")))
    assert "MessageId" not in answer
    assert logged(sandbox, "answered") == ["arrived", "accepted", "answered"]
    wait_for(lambda: subscribed.kinds() == ["Send", "Delivery"])


@pytest.mark.parametrize(("name", "accepted"), [("reset", True), ("lost", False)])
def test_a_cut_connection_looks_the_same_whether_or_not_the_mail_was_accepted(
    name: str, accepted: bool, send: Send, sandbox: Sandbox, subscribed: Receiver
) -> None:
    with pytest.raises(ConnectionClosedError):
        send(at(name))
    expected = ["arrived", "accepted", "reset"] if accepted else ["arrived", "reset"]
    assert logged(sandbox, "reset") == expected
    if accepted:
        wait_for(lambda: subscribed.kinds() == ["Send", "Delivery"])
    assert len(sandbox.inbox()) == accepted


@pytest.mark.parametrize(("name", "accepted"), [("timeout", True), ("blackhole", False)])
def test_a_call_without_an_answer_hangs_until_the_client_gives_up(
    name: str,
    accepted: bool,
    client: Callable[..., Any],
    sandbox: Sandbox,
    subscribed: Receiver,
) -> None:
    ses = client("sesv2", sandbox.url, read_timeout=0.3)
    with pytest.raises(ReadTimeoutError):
        ses.send_email(**simple_mail(at(name)))
    before = ["arrived", "accepted"] if accepted else ["arrived"]
    assert logged(sandbox, "client_gone") == [*before, "hung", "client_gone"]
    if accepted:
        wait_for(lambda: subscribed.kinds() == ["Send", "Delivery"])
    assert len(sandbox.inbox()) == accepted


def test_slow_accepts_at_once_and_answers_later(send: Send, sandbox: Sandbox) -> None:
    assert send(at("slow"))
    assert logged(sandbox, "answered") == ["arrived", "accepted", "answered"]
    _, accepted, answered = (row["at"] for row in sandbox.log())
    assert answered - accepted >= 0.2


def test_the_send_event_of_early_is_answered_before_the_call_is(
    send: Send, sandbox: Sandbox, subscribed: Receiver
) -> None:
    send(at("early"))
    # The event was delivered on the way to the answer: nothing to wait for.
    assert subscribed.kinds()[0] == "Send"
    logged(sandbox, "answered")
    assert sandbox.deliveries()[0]["at"] <= sandbox.log()[-1]["at"]


def test_the_first_deciding_recipient_decides_the_call(send: Send) -> None:
    with pytest.raises(ClientError, match="Message rejected"):
        send("a@example.com", at("rejected"), at("throttle"))


def test_every_behaviour_of_the_table_is_tested_here() -> None:
    elsewhere = {"error500", "error503", "garbage", "reset", "lost", "timeout", "blackhole", "slow"}
    assert set(BEHAVIOURS) == set(FATES) | set(REFUSALS) | elsewhere


def test_bounces_and_complaints_look_like_those_of_the_real_simulator(
    send: Send, subscribed: Receiver
) -> None:
    send(at("bounce"), at("ooto"), at("complaint"), at("suppressionlist"))
    wait_for(lambda: len(subscribed.posts) == 7)
    bounces = {
        one["bounce"]["bouncedRecipients"][0]["emailAddress"]: one["bounce"]
        for one in subscribed.events()
        if one["eventType"] == "Bounce"
    }
    hard = bounces[at("bounce")]
    assert (hard["bounceType"], hard["bounceSubType"]) == ("Permanent", "General")
    assert hard["bouncedRecipients"][0]["status"] == "5.1.1"
    assert "550 5.1.1" in hard["bouncedRecipients"][0]["diagnosticCode"]
    away = bounces[at("ooto")]
    assert (away["bounceType"], away["bounceSubType"]) == ("Transient", "General")
    assert away["bouncedRecipients"] == [{"emailAddress": at("ooto")}]
    listed = bounces[at("suppressionlist")]
    assert (listed["bounceType"], listed["bounceSubType"]) == ("Permanent", "General")
    (complaint,) = [
        one["complaint"] for one in subscribed.events() if one["eventType"] == "Complaint"
    ]
    assert complaint["complaintFeedbackType"] == "abuse"
    assert complaint["complaintSubType"] is None


@pytest.mark.parametrize(("reason", "kind"), [("BOUNCE", "Bounce"), ("COMPLAINT", "Complaint")])
def test_a_suppressed_recipient_is_accepted_and_comes_back_as_listed(
    reason: str, kind: str, ses: Any, send: Send, subscribed: Receiver
) -> None:
    ses.put_suppressed_destination(EmailAddress="Ada@example.com", Reason=reason)
    assert send("ada@EXAMPLE.com", "other@example.com")
    wait_for(lambda: len(subscribed.posts) == 3)
    assert subscribed.kinds() == ["Send", kind, "Delivery"]
    details = subscribed.events()[1][kind.lower()]
    subtype = details["bounceSubType" if kind == "Bounce" else "complaintSubType"]
    assert subtype == "OnAccountSuppressionList"
    ses.delete_suppressed_destination(EmailAddress="Ada@example.com")
    send("ada@example.com")
    wait_for(lambda: len(subscribed.posts) == 5)
    assert subscribed.kinds()[3:] == ["Send", "Delivery"]


@pytest.mark.parametrize(("name", "reason"), [("bounce", "BOUNCE"), ("complaint", "COMPLAINT")])
def test_a_forced_bounce_or_complaint_puts_a_real_address_on_the_list(
    name: str, reason: str, ses: Any, send: Send, sandbox: Sandbox
) -> None:
    sandbox.knobs(outcome=name)
    message_id = send("ada@example.com", at("success"))
    found = ses.get_suppressed_destination(EmailAddress="ada@example.com")
    assert found["SuppressedDestination"]["Reason"] == reason
    assert found["SuppressedDestination"]["Attributes"]["MessageId"] == message_id
    with pytest.raises(ses.exceptions.NotFoundException):
        ses.get_suppressed_destination(EmailAddress=at("success"))
