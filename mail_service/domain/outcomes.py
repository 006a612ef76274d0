"""What one SES call taught us, as a closed set of values.

``Accepted | Refused | Deferred | Held | Unknown`` come from a call; ``Released`` says that no call
was made. Matching on :data:`Outcome` must be exhaustive, so that a new kind fails the type check
wherever it is not handled yet.
"""

from dataclasses import dataclass
from enum import StrEnum


class HoldScope(StrEnum):
    """Why sending stops: whose fault an answer is when it is not the email's."""

    ACCOUNT = "account"
    SENDER = "sender"
    CONFIGURATION_SET = "configuration_set"
    TEMPLATE = "template"
    ENDPOINT = "endpoint"


class Pace(StrEnum):
    """How soon a refused email is tried again."""

    USUAL = "usual"  # exponential, counts against MAX_ATTEMPTS
    SLOW = "slow"  # as usual, but from a long first step: the answer is not one we know
    THROTTLED = "throttled"  # a short wait that uses up no attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """SES took the mail under this id."""

    provider_message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """SES did not take the mail and never will: permanent for this email."""

    error_class: str
    error_code: str | None = None
    alarm: bool = False  # a bug of ours, not of the email


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """SES did not take the mail; the same call may succeed later."""

    error_class: str
    error_code: str | None = None
    pace: Pace = Pace.USUAL
    alarm: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """SES did not take the mail, and the fault is not this email's: sending of its kind stops."""

    scope: HoldScope
    error_class: str
    error_code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """SES may or may not have taken the mail. Never a licence to call again."""

    error_class: str
    error_code: str | None = None


@dataclass(frozen=True, slots=True)
class Released:
    """The lease was given back before any call was made."""


Outcome = Accepted | Refused | Deferred | Held | Unknown
"""What a call can end in."""

Result = Outcome | Released
"""What an attempt can end in."""
