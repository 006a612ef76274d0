"""The state machine, over everything that can be asked of it."""

from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from mail_service.domain.outcomes import (
    Accepted,
    Deferred,
    Held,
    HoldScope,
    Pace,
    Refused,
    Released,
    Result,
    Unknown,
)
from mail_service.domain.sending import Limits, back_off, expire, prove, settle, strengthen
from mail_service.domain.states import TRANSITIONS, Attempt, AttemptState, Email, EmailState

TOKEN = UUID(int=7)
OTHER = UUID(int=8)
LIMITS = Limits(max_attempts=3, retry_base_seconds=30, retry_cap_seconds=3600)

results = st.one_of(
    st.builds(Accepted, provider_message_id=st.sampled_from(["m-1", "m-2"])),
    st.builds(Refused, error_class=st.just("rejected"), alarm=st.booleans()),
    st.builds(
        Deferred, error_class=st.just("throttled"), pace=st.sampled_from(Pace), alarm=st.booleans()
    ),
    st.builds(Held, scope=st.sampled_from(HoldScope), error_class=st.just("paused")),
    st.builds(Unknown, error_class=st.just("read_timeout")),
    st.just(Released()),
)


@st.composite
def situations(draw: st.DrawFn) -> tuple[Email, Attempt]:
    state = draw(st.sampled_from(EmailState))
    number = draw(st.integers(1, 4))
    attempt_state = draw(st.sampled_from(AttemptState))
    accepted = (
        attempt_state is AttemptState.ACCEPTED
        or state is EmailState.SUBMITTED
        or draw(st.booleans())
    )
    if accepted and state not in {EmailState.SENDING, EmailState.SUBMITTED}:
        accepted = attempt_state is AttemptState.ACCEPTED
        attempt_state = AttemptState.UNKNOWN if accepted else attempt_state
        accepted = False
    email = Email(
        id=UUID(int=1),
        state=state,
        epoch=0,
        lease_token=draw(st.sampled_from([TOKEN, OTHER])) if state is EmailState.SENDING else None,
        attempts=draw(st.integers(number, 5)),
        refusals=draw(st.integers(0, 2)),
        deferrals=draw(st.integers(0, 40)),
        accepted=accepted,
    )
    message_id = "m-1" if attempt_state is AttemptState.ACCEPTED and draw(st.booleans()) else None
    return email, Attempt(
        id=TOKEN,
        email_id=email.id,
        number=number,
        epoch=0,
        state=attempt_state,
        provider_message_id=message_id,
    )


@given(situations(), results, st.floats(0.001, 1))
def test_a_result_only_takes_drawn_edges_and_certainty_only_grows(
    situation: tuple[Email, Attempt], result: Result, jitter: float
) -> None:
    email, attempt = situation
    settled = settle(email, attempt, result, limits=LIMITS, jitter=jitter)
    assert settled.attempt == strengthen(attempt.state, settled.attempt)
    if attempt.provider_message_id is not None:
        assert settled.provider_message_id == attempt.provider_message_id
    if settled.move is None:
        return
    assert settled.move.to in TRANSITIONS[email.state]
    assert (settled.move.wait_seconds is not None) == (settled.move.to is EmailState.PENDING)
    if settled.move.wait_seconds is not None:
        assert 0 <= settled.move.wait_seconds <= LIMITS.retry_cap_seconds
        assert settled.move.refusals < LIMITS.max_attempts


@given(situations(), results)
def test_nothing_moves_without_the_lease_but_acceptance_and_the_end_of_a_doubt(
    situation: tuple[Email, Attempt], result: Result
) -> None:
    email, attempt = situation
    move = settle(email, attempt, result, limits=LIMITS, jitter=1).move
    if move is None or email.lease_token == attempt.id:
        return
    assert email.state is not EmailState.SENDING
    proves_refusal = email.state is EmailState.AMBIGUOUS and attempt.number == email.attempts
    assert move.to is EmailState.SUBMITTED or (
        proves_refusal and not isinstance(result, Unknown | Accepted)
    )


@given(situations(), results)
def test_an_email_with_an_accepted_attempt_goes_to_submitted_or_stays(
    situation: tuple[Email, Attempt], result: Result
) -> None:
    email, attempt = situation
    settled = settle(email, attempt, result, limits=LIMITS, jitter=1)
    if (email.accepted or settled.attempt is AttemptState.ACCEPTED) and settled.move is not None:
        assert settled.move.to is EmailState.SUBMITTED


@given(situations(), results)
def test_an_unknown_outcome_never_makes_an_email_sendable(
    situation: tuple[Email, Attempt], result: Result
) -> None:
    email, attempt = situation
    if isinstance(result, Unknown):
        move = settle(email, attempt, result, limits=LIMITS, jitter=1).move
        assert move is None or move.to in {EmailState.AMBIGUOUS, EmailState.SUBMITTED}


@given(situations())
def test_the_end_of_a_lease_leads_to_doubt_or_to_what_is_proved(
    situation: tuple[Email, Attempt],
) -> None:
    settled = expire(*situation)
    assert settled.move is not None
    assert settled.move.to in {EmailState.AMBIGUOUS, EmailState.SUBMITTED}


@given(situations())
def test_evidence_submits_whatever_is_not_being_sent(situation: tuple[Email, Attempt]) -> None:
    email, attempt = situation
    settled = prove(email, attempt, "m-9")
    assert settled.attempt is AttemptState.ACCEPTED
    if email.state in {EmailState.SENDING, EmailState.SUBMITTED}:
        assert settled.move is None
    else:
        assert settled.move is not None
        assert settled.move.to is EmailState.SUBMITTED


@given(st.sampled_from(AttemptState), st.sampled_from(AttemptState), st.sampled_from(AttemptState))
def test_learning_is_a_join_up_to_which_refusal_came_first(
    a: AttemptState, b: AttemptState, c: AttemptState
) -> None:
    assert strengthen(a, a) is a
    assert strengthen(strengthen(a, b), c) is strengthen(a, strengthen(b, c))
    if AttemptState.ACCEPTED in (a, b):
        assert strengthen(a, b) is AttemptState.ACCEPTED


@given(st.integers(-5, 10**9), st.floats(0.001, 1))
def test_back_off_is_bounded_at_any_step(step: int, jitter: float) -> None:
    assert 0 < back_off(step, base=30, cap=3600, jitter=jitter) <= 3600


def test_a_saved_message_id_is_kept_whatever_comes_later() -> None:
    email = Email(
        id=UUID(int=1),
        state=EmailState.SENDING,
        epoch=0,
        lease_token=TOKEN,
        attempts=1,
        refusals=0,
        deferrals=0,
        accepted=True,
    )
    attempt = Attempt(
        id=TOKEN,
        email_id=email.id,
        number=1,
        epoch=0,
        state=AttemptState.ACCEPTED,
        provider_message_id="m-1",
    )
    late = settle(email, attempt, Accepted(provider_message_id="m-2"), limits=LIMITS, jitter=1)
    assert (late.provider_message_id, late.alarm) == ("m-1", "two_message_ids_for_one_call")
    assert prove(email, attempt, "m-2").provider_message_id == "m-1"
