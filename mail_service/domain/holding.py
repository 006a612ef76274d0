"""Holds: what one stops, when it is probed, and what a probe's end means for it."""

from enum import StrEnum
from typing import assert_never

from mail_service.domain.outcomes import (
    Accepted,
    Deferred,
    Held,
    HoldScope,
    Refused,
    Released,
    Result,
    Unknown,
)
from mail_service.domain.sending import back_off

UNKNOWNS_THAT_HOLD = 5
"""This many unknown outcomes in a row without an acceptance: the endpoint is down, not unlucky."""

UNKNOWN_OUTCOMES = "unknown_outcomes"
"""Why the endpoint is held then."""

WIDEST_FIRST = (
    HoldScope.ENDPOINT,
    HoldScope.ACCOUNT,
    HoldScope.CONFIGURATION_SET,
    HoldScope.SENDER,
    HoldScope.TEMPLATE,
)
"""The order in which holds that stop the same email are probed."""

DAILY_QUOTA_SECONDS = 60.0
"""The least time between probes of a used-up daily quota (AWS advises minutes)."""

PROBES_APART_SECONDS = 60.0
"""The most between other probes: a refusal costs nothing, and what is mended must be noticed soon."""

DOUBTFUL_PROBES_APART_SECONDS = 300.0
"""The same where answers tell nothing, because each such probe leaves an email on the desk."""


class ProbeEnd(StrEnum):
    """What a probe's result means for the hold it was sent for."""

    CLEARS = "clears"  # SES took it, or refused it for another reason
    TELLS_NOTHING = "tells nothing"  # lost, unknown, or never made: another one may go
    CONFIRMS = "confirms"  # refused for the same reason: later


def subject_of(
    scope: HoldScope, *, sender: str, template: str, configuration_set: str | None
) -> str:
    """Give what a hold of this scope is about; empty where the scope says it all."""
    match scope:
        case HoldScope.ACCOUNT | HoldScope.ENDPOINT:
            return ""
        case HoldScope.SENDER:
            return sender
        case HoldScope.TEMPLATE:
            return template
        case HoldScope.CONFIGURATION_SET:
            return configuration_set or "(none)"
        case _:
            assert_never(scope)


def probe_wait(probes: int, error_class: str, *, base: float, cap: float) -> float:
    """Give the time until the next probe after so many of them, in seconds.

    What somebody can mend is looked at often. A used-up daily quota is not, and less and less often.
    """
    if error_class == "daily_quota":
        return max(DAILY_QUOTA_SECONDS, back_off(probes + 1, base=base, cap=cap, jitter=1.0))
    doubtful = error_class == UNKNOWN_OUTCOMES
    apart = DOUBTFUL_PROBES_APART_SECONDS if doubtful else PROBES_APART_SECONDS
    return back_off(probes + 1, base=base, cap=min(cap, max(base, apart)), jitter=1.0)


def probe_end(scope: HoldScope, subject: str, result: Result, held_subject: str) -> ProbeEnd:
    """Say what a probe's result means. ``held_subject``: what the result itself would hold, if Held."""
    match result:
        case Held(scope=HoldScope.TEMPLATE) | Refused(error_class="template_failed") if (
            scope is not HoldScope.TEMPLATE
        ):
            return ProbeEnd.TELLS_NOTHING  # it was not composed, so SES was not asked
        case Accepted() | Refused() | Deferred():
            return ProbeEnd.CLEARS
        case Held(scope=again):
            same = again is scope and held_subject == subject
            return ProbeEnd.CONFIRMS if same else ProbeEnd.CLEARS
        case Unknown() | Released():
            return ProbeEnd.TELLS_NOTHING
        case _:
            assert_never(result)
