"""The demo's verdict: each way in which an account can end wrongly is told by name."""

from typing import Any

import pytest

from mail_service.cli.demo_cast import Role, World, cast_of_the_demo

ENDS: dict[str, tuple[str, str]] = {
    "ordinary": ("submitted", "delivered"),
    "bounce": ("submitted", "bounced"),
    "complaint": ("submitted", "complained"),
    "suppressed": ("suppressed", "suppressed"),
    "timeout": ("submitted", "delivered"),
}


def _email(state: str, status: str, resolved_by: str = "event") -> dict[str, Any]:
    return {
        "id": "x",
        "state": state,
        "recipients": [{"status": status}],
        "attempts": [{"resolved_by": resolved_by}],
    }


def _role(name: str) -> Role:
    (role,) = [role for role in cast_of_the_demo() if role.name == name]
    if name == "timeout":
        role.see(_email("ambiguous", "waiting"))
    role.see(_email(*ENDS[name]))
    return role


def _world(*, accepted: int = 1, arrived: int = 0, listed: bool = True) -> World:
    addresses = [role.address for role in cast_of_the_demo()]
    rows = [{"event": "accepted", "recipients": addresses}] * accepted
    rows += [{"event": "arrived", "recipients": addresses}] * arrived

    def suppressed(address: str) -> str | None:
        reason = address.partition("+")[0]
        return reason if listed and reason in ("bounce", "complaint") else None

    return World(suppressed, lambda: rows)


@pytest.mark.parametrize("name", ENDS)
def test_the_right_end_is_right(name: str) -> None:
    assert _role(name).problems(_world()) == []


@pytest.mark.parametrize("name", ENDS)
def test_another_state_is_told(name: str) -> None:
    role = _role(name)
    role.see(_email("failed", "waiting"))
    assert any(text.startswith(f"{name}: state should be") for text in role.problems(_world()))


@pytest.mark.parametrize("name", ["ordinary", "bounce", "complaint", "timeout"])
def test_a_mail_that_went_out_twice_is_told(name: str) -> None:
    (text,) = _role(name).problems(_world(accepted=2))
    assert text == f"{name}: mails that the sandbox accepted should be 1 and is 2"


@pytest.mark.parametrize("name", ["bounce", "complaint"])
def test_a_mailbox_that_is_not_on_the_list_is_told(name: str) -> None:
    (text,) = _role(name).problems(_world(listed=False))
    assert "suppression list should be" in text


def test_a_call_for_a_suppressed_address_is_told() -> None:
    (text,) = _role("suppressed").problems(_world(arrived=1))
    assert text == "suppressed: calls to SES should be 0 and is 1"


def test_a_doubt_that_nobody_saw_or_that_no_event_settled_is_told() -> None:
    unseen = _role("timeout")
    unseen.states = ["pending", "submitted"]
    (text,) = unseen.problems(_world())
    assert "should have been ambiguous on its way" in text
    guessed = _role("timeout")
    guessed.see(_email("submitted", "delivered", resolved_by="operator"))
    (text,) = guessed.problems(_world())
    assert "settled by an event" in text
