"""Decisions about doubt: what a person may decide, what the stated policy may, and where it leads.

Silence is never proof. A new epoch opens only here, and only by a recorded decision.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from mail_service.domain.sending import Move
from mail_service.domain.states import Email, EmailState


class Decision(StrEnum):
    """What an operator says about a doubtful email."""

    ACCEPTED = "accepted"
    RESEND = "resend"
    ABANDON = "abandon"


UNFINISHED_CALLS_THAT_STOP_POLICY = 3
"""After this many attempts without a finished call, something about the email itself is wrong."""


def decide(decision: Decision) -> Move:
    """Give where a decision takes an email in doubt."""
    match decision:
        case Decision.ACCEPTED:
            return Move(to=EmailState.SUBMITTED, reason="accepted_by_operator")
        case Decision.RESEND:
            return again("resent_by_decision")
        case Decision.ABANDON:
            return Move(to=EmailState.FAILED, reason="abandoned")
        case _:
            assert_never(decision)


def again(reason: str) -> Move:
    """Open a new epoch: due now, with all its tries before it."""
    return Move(to=EmailState.PENDING, reason=reason, wait_seconds=0.0, new_epoch=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Circumstances:
    """What the stated policy looks at before it sends again."""

    policy_resends: int
    max_policy_resends: int
    past_not_after: bool
    past_maximum_age: bool
    configuration_set_named: bool
    events_arrive: bool
    unfinished_calls: int
    content_there: bool


def why_policy_waits(email: Email, seen: Circumstances) -> str | None:
    """Say why policy leaves a doubt to a person; None when it may send again."""
    if email.state is not EmailState.AMBIGUOUS or email.accepted:
        return "no longer in doubt"
    reasons = {
        "policy has sent again as often as it may": seen.policy_resends >= seen.max_policy_resends,
        "its not_after has passed": seen.past_not_after,
        "its maximum age has passed": seen.past_maximum_age,
        "no configuration set is named, so no event could tell": not seen.configuration_set_named,
        "no events arrive at all": not seen.events_arrive,
        "three calls of it never ended": seen.unfinished_calls >= UNFINISHED_CALLS_THAT_STOP_POLICY,
        "its content is erased": not seen.content_there,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)
