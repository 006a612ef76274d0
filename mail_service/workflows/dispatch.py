"""Sending, in three steps that a crash can fall between: take, send, record.

``take`` commits the attempts before any call, ``send`` makes one call outside any transaction, and
:mod:`record` writes what came of it. A crash after ``take`` leaves a lease that runs out into doubt; a
crash after ``send`` leaves the same, and SES's own event resolves it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mail_service.domain.outcomes import Held, HoldScope, Outcome, Refused, Released, Result
from mail_service.ports import OutgoingEmail
from mail_service.runtime import Runtime
from mail_service.store import attempts, claims, waves
from mail_service.store.claims import Claimed
from mail_service.store.database import Tx
from mail_service.workflows import holding, journal
from mail_service.workflows.frontier import Frontier

SMALL_WAVE = 5

CHECK_GOOD_FOR_SECONDS = 1.0
"""How old the last look at suppressions may be when a call begins (S10)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One leased email. Times are monotonic seconds; ``begun`` was read before the lease was asked for."""

    row: Claimed = field(repr=False)
    begun: float
    checked: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What an attempt ended in, waiting to be recorded."""

    row: Claimed = field(repr=False)
    result: Result
    seconds: float = 0.0


def take(rt: Runtime, limit: int, frontier: Frontier | None = None) -> list[Claim]:
    """Lease up to ``limit`` due emails, each with a committed attempt; gives those to call SES for.

    Begins at the oldest, or where the frontier says.

    Where the answer to the commit was lost, the leases are looked up by our own tokens: what is there
    is ours to call, as long as its time is good.
    """
    begun = time.monotonic()
    ids = [rt.new_id() for _ in range(limit)]
    # A tenth of the places, at least one, goes to each lower lane that has work. A wave too small for
    # that gives them one now and then.
    reserved = max(1, limit // 10) if limit >= SMALL_WAVE else int(rt.jitter() <= limit / 10)

    frontier = frontier or Frontier()
    since = frontier.since()

    def work(tx: Tx) -> list[Claimed]:
        return claims.claim(
            tx, attempt_ids=ids, reserved=reserved, since=since, terms=holding.terms(rt)
        )

    rows = rt.db.transact(work, found=lambda tx: claims.held_by(tx, ids))
    frontier.advance(since, rows)
    return _begin(rows, begun)


def take_probes(rt: Runtime) -> tuple[list[Claim], float | None]:
    """Lease one email for each hold that may be probed now; gives them, and when to look again."""
    begun = time.monotonic()
    rows, look_again = holding.take_probes(rt)
    return _begin(rows, begun), look_again


def _begin(rows: Sequence[Claimed], begun: float) -> list[Claim]:
    if rows:
        # One line for all: each is told of by its id again when it is settled.
        journal.stage("emails.claimed", attempt_ids=" ".join(str(row.attempt_id) for row in rows))
    return [Claim(row=row, begun=begun, checked=begun) for row in rows]


def seconds_until_due(rt: Runtime, frontier: Frontier) -> float | None:
    """Give the time until the next pending email beyond the frontier is due; None when none is pending."""
    with rt.db.statement() as tx:
        return waves.seconds_until_due(tx, frontier.since())


def recheck(rt: Runtime, taken: Sequence[Claim]) -> tuple[list[Claim], list[Ended]]:
    """Look once more at claims about to be called: those that may go on, and those given back.

    Given back are those whose lease has less than a whole call's time left, and those that waited and
    of which a recipient was suppressed, or which a hold stops, since the last look.
    """
    now = time.monotonic()
    in_time = [c for c in taken if _in_time(rt, c, now)]
    back = [Ended(row=c.row, result=Released()) for c in taken if not _in_time(rt, c, now)]
    stale = [c for c in in_time if now - c.checked > CHECK_GOOD_FOR_SECONDS]
    if not stale:
        return in_time, back
    with rt.db.transaction() as tx:
        ids = [c.row.attempt_id for c in stale]
        allowed = attempts.still_allowed(tx, ids) & holding.let_through(rt, tx, ids)
    fresh: list[Claim] = []
    for claim in in_time:
        if claim not in stale:
            fresh.append(claim)
        elif claim.row.attempt_id in allowed:
            fresh.append(replace(claim, checked=now))
        else:
            back.append(Ended(row=claim.row, result=Released()))
    return fresh, back


def _in_time(rt: Runtime, claim: Claim, now: float) -> bool:
    """Whether the lease has a whole call's time left."""
    return now - claim.begun <= rt.settings.lease_seconds - rt.settings.call_seconds


def compose(rt: Runtime, claim: Claim) -> OutgoingEmail | Held | Refused:
    """Render the email from the template version that was pinned when it was written."""
    row = claim.row
    template = rt.templates.get(row.template)
    if template is None or template.checksum != row.template_checksum:
        # One bad deploy must not fail a queue: the email waits for its version to come back.
        return Held(
            scope=HoldScope.TEMPLATE,
            error_class="template_missing" if template is None else "template_changed",
        )
    try:
        rendered = template.render(row.data)
    except Exception as error:
        # Checked when it was written, so this is a bug; but of this email alone, and its attempt
        # must not be left to look like a call.
        journal.alarm("template_failed", attempt_id=row.attempt_id, exc_info=error)
        return Refused(error_class="template_failed")
    by_kind: dict[str, list[str]] = {"to": [], "cc": [], "bcc": []}
    for kind, address in row.recipients:
        by_kind[kind].append(address)
    return OutgoingEmail(
        request_tag=str(row.attempt_id),
        sender=row.sender,
        subject=rendered.subject,
        text=rendered.text,
        html=rendered.html,
        to=tuple(by_kind["to"]),
        cc=tuple(by_kind["cc"]),
        bcc=tuple(by_kind["bcc"]),
        reply_to=tuple(row.reply_to),
        headers=tuple((name, value) for name, value in row.headers),
    )


def may_begin(rt: Runtime, claim: Claim) -> bool:
    """Say whether the lease has a whole call's time left and the last look at it is not too old."""
    now = time.monotonic()
    return _in_time(rt, claim, now) and now - claim.checked <= CHECK_GOOD_FOR_SECONDS


def send(rt: Runtime, claim: Claim, outgoing: OutgoingEmail) -> Ended:
    """Make the one call. No transaction is open, and whatever happens becomes a value.

    A process that was stopped since the last look gives the lease back instead: that is always safe.
    """
    if not may_begin(rt, claim):
        return Ended(row=claim.row, result=Released())
    begun = time.monotonic()
    outcome: Outcome = rt.mailer.send(outgoing)
    return Ended(row=claim.row, result=outcome, seconds=time.monotonic() - begun)
