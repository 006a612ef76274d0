"""What is searched: the model in several sizes, and one mistake at a time that must be caught."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One search. ``broken_by`` is the promise that must be found broken; None: nothing may be.

    With a ``claim``, that one is checked, under weak fairness; without, all promises are, in every
    state that can be reached.
    """

    name: str
    what: str
    defines: tuple[str, ...] = ()
    claim: str | None = None
    broken_by: str | None = None

    @property
    def correct(self) -> bool:
        """Whether this is the protocol as it should be."""
        return self.broken_by is None


def _live(claim: str, attempts: int) -> Variant:
    return Variant(
        name=f"live-{claim}",
        what=f"{claim}, with weak fairness: 2 workers, {attempts} attempts, 2 epochs",
        defines=("LIVE", f"ATTEMPTS={attempts}"),
        claim=claim,
    )


CORRECT = (
    Variant(name="main", what="2 workers, 4 attempts, 2 epochs"),
    Variant(name="wide", what="3 workers, 4 attempts, 2 epochs", defines=("WORKERS=3",)),
    Variant(
        name="long",
        what="2 workers, 3 attempts, 3 epochs",
        defines=("ATTEMPTS=3", "EPOCHS=3"),
    ),
    Variant(
        name="untrue",
        what="2 workers, 3 attempts, 2 epochs, one accepted call answered as refused",
        defines=("ATTEMPTS=3", "UNTRUE"),
    ),
    _live("L1", 2),
    _live("L2", 3),
    _live("L3", 3),
    _live("L4", 3),
)

LARGE = Variant(
    name="large",
    what="3 workers, 4 attempts, 3 epochs",
    defines=("WORKERS=3", "EPOCHS=3"),
)
"""Minutes and gigabytes: only when asked for."""


def _mutant(name: str, broken_by: str, what: str, *defines: str) -> Variant:
    return Variant(
        name=name, what=what, defines=(f"M_{name.upper()}", *defines), broken_by=broken_by
    )


def _stuck(name: str, claim: str, what: str) -> Variant:
    return Variant(
        name=name,
        what=what,
        defines=(f"M_{name.upper()}", "LIVE", "ATTEMPTS=2"),
        claim=claim,
        broken_by=claim,
    )


S4 = "S4 recorded before sent"
S5 = "S5 one acceptance per epoch"
S5_TIME = "S5 one acceptance in an epoch's time"
S5_KNOWN = "S5 earlier ones known refused"
S6 = "S6 refused was not accepted"
S7 = "S7 submitted was accepted"
S7_PROVED = "S7 proved: only to submitted"
S8_LEASE = "S8 one live lease"
S8_CERTAINTY = "S8 certainty grows"
S8_TOKEN = "S8 only the current token"
S9 = "S9 expiry is doubt"
S10 = "S10 no claim when suppressed"
S11 = "S11 events only suppress"
S15 = "S15 only drawn edges"
S15_REPEAT = "S15 a repeat moves nothing"
S18 = "S18 decided on what is so"
L3_HEARD = "L3 acceptance is heard"

MUTANTS = (
    _mutant("row_after_call", S4, "the attempt's row is committed after the call"),
    _mutant("call_without_answer", S4, "a worker calls though the claim's answer was lost"),
    _mutant("sdk_retries", S5, "the SDK calls again, with the same tag, after silence"),
    _mutant("unknown_is_retryable", S5_KNOWN, "an unknown outcome is tried again"),
    _mutant("same_epoch", S5_KNOWN, "a decision to resend opens no epoch"),
    _mutant("any_late_refusal", S5_KNOWN, "a late refusal of any attempt ends doubt", "NO_REPEATS"),
    _mutant("resend_too_soon", S5_TIME, "resend while the old call may still run"),
    _mutant("requeue_too_soon", S5_TIME, "requeue, after abandoning, while it may still run"),
    _mutant("5xx_is_refusal", S6, "a 5xx is taken as a refusal"),
    _mutant("release_in_flight", S6, "a stopping worker gives back a call that is out"),
    _mutant("silence_is_acceptance", S7, "a time-out is taken as accepted"),
    _mutant("evidence_ignored", S7_PROVED, "the finalise does not look for events"),
    _mutant("earlier_evidence_ignored", S7_PROVED, "it looks at its own attempt only"),
    _mutant("expiry_ignores_evidence", S7_PROVED, "the sweep does not look for events"),
    _mutant("claims_leased", S8_LEASE, "the claim takes what is leased"),
    _mutant("repeat_moves", S15_REPEAT, "a finalise done again moves what was leased since"),
    _mutant("no_token", S15, "the finalise moves whatever it finds", "NO_REPEATS"),
    _mutant(
        "any_token", S8_TOKEN, "the finalise moves what another one has leased since", "NO_REPEATS"
    ),
    _mutant("event_moves_sending", S8_TOKEN, "an event moves a leased email"),
    _mutant("refusal_overwrites", S8_CERTAINTY, "a refusal beats acceptance", "UNTRUE"),
    _mutant("refusal_stands", L3_HEARD, "acceptance does not beat a refusal", "UNTRUE"),
    _mutant("late_result_dropped", L3_HEARD, "a result without the current token is dropped"),
    _mutant("expiry_to_pending", S9, "an expired lease makes the email sendable"),
    _mutant("no_stop_check", S10, "the claim does not look at suppressions"),
    _mutant("event_lifts_stop", S11, "a delivery lifts a suppression"),
    _mutant("stale_page", S18, "a decision on a stale page is taken"),
    _mutant("requeue_names_no_attempt", S18, "a requeue does not say what it was decided on"),
    _mutant("requeue_names_no_epoch", S18, "it names the attempt, not the epoch", "EPOCHS=3"),
    _stuck("no_age", "L1", "mail that nothing more can be done for has no maximum age"),
    _stuck("no_expiry", "L2", "no sweep ends leases"),
    _stuck("events_lost", "L3", "events are answered, and not stored"),
    _stuck("never_rematched", "L4", "the sweep does not match events again"),
    _stuck("foreign_forgotten", "L4", "an event that saves a MessageId wakes none that waits"),
)
