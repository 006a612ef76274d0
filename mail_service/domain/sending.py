"""What each answer, each event and each lease that ends means for an email.

Two things are kept apart. What is known of an *attempt* only gains certainty
(:func:`strengthen`). Where the *email* goes follows from that, from who holds its lease, and from
whether any of its attempts was accepted. Everything here is pure; the caller holds the email's row
lock while it reads, decides and writes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from mail_service.domain.outcomes import (
    Accepted,
    Deferred,
    Held,
    Pace,
    Refused,
    Released,
    Result,
    Unknown,
)
from mail_service.domain.states import Attempt, AttemptState, Email, EmailState

_CERTAINTY: Mapping[AttemptState, int] = {
    AttemptState.STARTED: 0,
    AttemptState.UNKNOWN: 1,
    AttemptState.RETRYABLE: 2,
    AttemptState.PERMANENT: 2,
    AttemptState.HELD: 2,
    AttemptState.RELEASED: 2,
    AttemptState.ACCEPTED: 3,
}

THROTTLED_BASE_SECONDS = 1.0
THROTTLED_CAP_SECONDS = 30.0
SLOW_STEPS = 3  # an answer we don't know starts at eight times the base


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How often and how far apart an email is tried. ``jitter`` is a random number in (0, 1]."""

    max_attempts: int
    retry_base_seconds: float
    retry_cap_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Where the email goes. ``wait_seconds`` is set exactly when it becomes pending."""

    to: EmailState
    reason: str | None = None
    wait_seconds: float | None = None
    refusals: int = 0
    deferrals: int = 0
    new_epoch: bool = False
    demoted: bool = False  # refused: from now on it waits in the lane below its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """What is now known of the attempt, and where its email goes (None: it stays)."""

    attempt: AttemptState
    provider_message_id: str | None
    decision: str
    move: Move | None
    alarm: str | None = None


def strengthen(known: AttemptState, learned: AttemptState) -> AttemptState:
    """Give the more certain of two states; what stands wins a tie, acceptance beats a refusal."""
    return learned if _CERTAINTY[learned] > _CERTAINTY[known] else known


def says_more(attempt: Attempt, result: Result) -> bool:
    """Whether a result tells anything of a call whose end is recorded: one that is repeated does not."""
    return strengthen(attempt.state, _state_of(result)) is not attempt.state


def back_off(step: int, *, base: float, cap: float, jitter: float) -> float:
    """Give the wait before try ``step`` + 1, in seconds: exponential with full jitter, never above cap.

    The jitter spreads emails that failed together (AWS Architecture Blog, "Exponential Backoff And
    Jitter"). The exponent is bounded so that the arithmetic can't overflow.
    """
    return min(cap, base * 2.0 ** min(max(step - 1, 0), 30)) * jitter


def settle(
    email: Email, attempt: Attempt, result: Result, *, limits: Limits, jitter: float
) -> Settlement:
    """Say what a worker's result means, be it on time or late.

    The lease's holder moves the email. A late result only adds to what is known of the attempt,
    save two cases: acceptance moves any email that is not ``sending``, and a proof of refusal of the
    newest attempt takes an email out of doubt.
    """
    learned = _state_of(result)
    state = strengthen(attempt.state, learned)
    message_id = attempt.provider_message_id
    if isinstance(result, Accepted) and message_id is None:
        message_id = result.provider_message_id
    alarm = _alarm(attempt, result)
    holds_lease = email.state is EmailState.SENDING and email.lease_token == attempt.id
    if email.accepted or state is AttemptState.ACCEPTED:
        may_move = holds_lease or email.state not in {EmailState.SENDING, EmailState.SUBMITTED}
        return Settlement(
            attempt=state,
            provider_message_id=message_id,
            decision="submitted",
            move=Move(to=EmailState.SUBMITTED) if may_move else None,
            alarm=alarm,
        )
    in_doubt_over_this = (
        email.state is EmailState.AMBIGUOUS
        and email.attempts == attempt.number
        and learned is not AttemptState.UNKNOWN
        and state is learned
    )
    if not holds_lease and not in_doubt_over_this:
        return Settlement(
            attempt=state,
            provider_message_id=message_id,
            decision="kept as evidence",
            move=None,
            alarm=alarm,
        )
    move, decision = _after(email, result, limits, jitter)
    return Settlement(
        attempt=state, provider_message_id=message_id, decision=decision, move=move, alarm=alarm
    )


def expire(email: Email, attempt: Attempt) -> Settlement:
    """Say what the end of a lease means: doubt, or what evidence already proved. Never a new try."""
    state = strengthen(attempt.state, AttemptState.UNKNOWN)
    if email.accepted or state is AttemptState.ACCEPTED:
        return Settlement(
            attempt=state,
            provider_message_id=attempt.provider_message_id,
            decision="submitted",
            move=Move(to=EmailState.SUBMITTED),
        )
    return Settlement(
        attempt=state,
        provider_message_id=attempt.provider_message_id,
        decision="ambiguous",
        move=Move(to=EmailState.AMBIGUOUS, reason="lease_expired"),
    )


def prove(email: Email, attempt: Attempt, provider_message_id: str | None) -> Settlement:
    """Say what an event of SES about this attempt means: SES took it, whatever we believed.

    An email that is ``sending`` stays so until its holder finalises; that call may still be running.
    """
    refused = _CERTAINTY[attempt.state] == _CERTAINTY[AttemptState.PERMANENT]
    may_move = email.state not in {EmailState.SENDING, EmailState.SUBMITTED}
    return Settlement(
        attempt=AttemptState.ACCEPTED,
        provider_message_id=attempt.provider_message_id or provider_message_id,
        decision="submitted",
        move=Move(to=EmailState.SUBMITTED) if may_move else None,
        alarm="accepted_after_refusal" if refused else None,
    )


def _state_of(result: Result) -> AttemptState:
    match result:
        case Accepted():
            return AttemptState.ACCEPTED
        case Refused():
            return AttemptState.PERMANENT
        case Deferred():
            return AttemptState.RETRYABLE
        case Held():
            return AttemptState.HELD
        case Unknown():
            return AttemptState.UNKNOWN
        case Released():
            return AttemptState.RELEASED
        case _:
            assert_never(result)


def _alarm(attempt: Attempt, result: Result) -> str | None:
    match result:
        case Accepted(provider_message_id=given):
            if attempt.provider_message_id not in {None, given}:
                return "two_message_ids_for_one_call"
            return None
        case Refused(alarm=True) | Deferred(alarm=True):
            return "unexpected_answer"
        case Refused() | Deferred() | Held() | Released():
            # The event won; that a refusal was reported as well is worth a look.
            return "accepted_after_refusal" if attempt.state is AttemptState.ACCEPTED else None
        case Unknown():
            return None
        case _:
            assert_never(result)


def _after(email: Email, result: Result, limits: Limits, jitter: float) -> tuple[Move, str]:
    """Say where an email goes whose newest call ended in something other than acceptance."""
    base, cap = limits.retry_base_seconds, limits.retry_cap_seconds
    match result:
        case Accepted():
            return Move(to=EmailState.SUBMITTED), "submitted"
        case Refused(error_class=error_class):
            return Move(to=EmailState.FAILED, reason=error_class), "failed"
        case Unknown(error_class=error_class):
            return Move(to=EmailState.AMBIGUOUS, reason=error_class), "ambiguous"
        case Released():
            return (
                Move(
                    to=EmailState.PENDING,
                    wait_seconds=0.0,
                    refusals=email.refusals,
                    deferrals=email.deferrals,
                ),
                "released unused",
            )
        case Deferred(pace=Pace.THROTTLED, error_class=error_class):
            deferrals = email.deferrals + 1
            wait = back_off(
                deferrals, base=THROTTLED_BASE_SECONDS, cap=THROTTLED_CAP_SECONDS, jitter=jitter
            )
        case Held(error_class=error_class):
            # The hold says when: the email is due, and left out of every wave until it is cleared.
            return (
                Move(
                    to=EmailState.PENDING,
                    reason=error_class,
                    wait_seconds=0.0,
                    refusals=email.refusals,
                    deferrals=email.deferrals,
                ),
                "held",
            )
        case Deferred(pace=pace, error_class=error_class):
            refusals = email.refusals + 1
            if refusals >= limits.max_attempts:
                return Move(to=EmailState.FAILED, reason="attempts_used_up"), "failed"
            step = refusals + (SLOW_STEPS if pace is Pace.SLOW else 0)
            wait = back_off(step, base=base, cap=cap, jitter=jitter)
            return (
                Move(
                    to=EmailState.PENDING,
                    reason=error_class,
                    wait_seconds=wait,
                    refusals=refusals,
                    deferrals=0,
                    demoted=True,
                ),
                f"retry in {wait:.1f} s",
            )
        case _:
            assert_never(result)
    return (
        Move(
            to=EmailState.PENDING,
            reason=error_class,
            wait_seconds=wait,
            refusals=email.refusals,
            deferrals=deferrals,
        ),
        f"retry in {wait:.1f} s",
    )
