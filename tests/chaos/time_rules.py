"""Rules about how long things may take, but for the time in which nobody could do them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tests.campaign.auditor import Verdict
from tests.chaos.evidence import Found
from tests.chaos.stage import LEASE, SWEEP
from tests.chaos.witness import Span

SLACK = 5.0
HEALS_WITHIN = 10.0
"""Seconds that the product has after the database came back (L7)."""


def judge(found: Found) -> list[Verdict]:
    """Apply every rule."""
    return [_leases_end_in_time(found), _no_transaction_waits(found)]


def excused(found: Found, email: str) -> list[Span]:
    """Give the times in which this email's lease could not be ended, merged and in order.

    The database away or every connection to it cut, and the seconds in which all must heal; no clock
    or no worker there; the right to sweep, or the email's own row, held by a connection through which
    nothing passes until the server ends it.
    """
    spans = [(begun, end + HEALS_WITHIN) for begun, end in found.away]
    spans += [*found.nobody_there, *found.locked.get(email, ())]
    merged: list[Span] = []
    for begun, end in sorted(spans):
        if merged and begun <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((begun, end))
    return merged


def overlap(begun: float, end: float, spans: Iterable[Span]) -> float:
    """Give how much of a time lies within spans that do not overlap each other."""
    return sum(max(0.0, min(end, to) - max(begun, since)) for since, to in spans)


def lateness(found: Found) -> list[tuple[float, float, str]]:
    """Give for each lease how late it ended, by what remains when the excused time is left out."""
    late: list[tuple[float, float, str]] = []
    for row in found.transitions:
        attempt = found.by_tag.get(row["attempt_id"] or "")
        if row["from_state"] != "sending" or attempt is None:
            continue
        ends, at = attempt["started_at"].timestamp() + LEASE, row["at"].timestamp()
        if at > ends:
            spans = excused(found, row["email_id"])
            what = f"{row['attempt_id']} to {row['to_state']} by {row['actor']}, {at - ends:.1f} s late"
            late.append((at - ends - overlap(ends, at, spans), ends, what))
        else:
            late.append((0.0, ends, ""))
    return late


def _leases_end_in_time(found: Found) -> Verdict:
    verdict = Verdict(
        "L2 L3: no call stays open past lease + one sweep + 5 s; doubt is on the desk by then"
    )
    for late, ends, what in lateness(found):
        verdict.check(late <= SWEEP + SLACK, f"{what}, not excused {late:.1f} s; ended {ends:.1f}")
    return verdict


def _no_transaction_waits(found: Found) -> Verdict:
    verdict = Verdict("S20: no transaction is idle for 2 s while its connection is well")
    verdict.looked_at = found.looks
    verdict.violations += found.idle
    return verdict
