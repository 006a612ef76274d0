"""What SNS could not deliver within its hour is taken from its dead-letter queue, as if it came now.

A letter's body is the signed envelope that the webhook would have got, so it is believed, stored and
matched by the very same steps, and ends in the same tables. A letter is deleted only after the commit;
one that can't be believed stays where it is.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mail_service.domain.events import Notification
from mail_service.errors import EnvelopeRefused, Unavailable
from mail_service.ports import DeadLetter, DeadLetters
from mail_service.runtime import Runtime
from mail_service.store import events
from mail_service.workflows import ingest, journal
from mail_service.workflows.ingest import EmailHeld, Taken

MOST_HELD = 10_000
"""Letters kept hidden in one pass, because they can't be taken or nothing is to be taken. SQS lets
120,000 of a queue be hidden at once."""

FAULTS_IN_A_ROW = 3
"""Faults of ours after which the pass ends: it is not about the letters any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Redriven:
    """What became of the letters of one pass; in a dry run, what would.

    ``taken`` by what they were, ``refused`` by the cause under which the webhook counts it,
    ``postponed``: a fault of ours, so they can be taken another time. ``complete``: the queue was seen
    empty, but for what is left there.
    """

    taken: Mapping[str, int]
    refused: Mapping[str, int]
    postponed: int
    complete: bool

    @property
    def seen(self) -> int:
        """How many letters were looked at."""
        return sum(self.taken.values()) + self.left

    @property
    def left(self) -> int:
        """How many stay in the queue because they could not be taken."""
        return sum(self.refused.values()) + self.postponed


def redrive(
    rt: Runtime,
    letters: DeadLetters,
    *,
    dry_run: bool = False,
    most_held: int = MOST_HELD,
    tell: Callable[[Redriven], None] = lambda so_far: None,
) -> Redriven:
    """Take every letter once, and stop when there are no more; ``tell`` hears how far it is.

    Safe to end at any moment and to repeat: what was stored is known, what was not deleted comes back.
    Raises Unavailable when the queue, or the database for several letters in a row, does not answer.
    """
    taken: Counter[str] = Counter()
    refused: Counter[str] = Counter()
    postponed = faults = 0
    held: dict[str, str] = {}

    def so_far(*, complete: bool = False) -> Redriven:
        return Redriven(
            taken=dict(taken), refused=dict(refused), postponed=postponed, complete=complete
        )

    try:
        while len(held) < most_held:
            batch = letters.receive()
            fresh = [letter for letter in batch if letter.id not in held]
            held |= {letter.id: letter.receipt for letter in batch}
            if not fresh:
                return _done(so_far(complete=True), dry_run=dry_run)
            done: list[DeadLetter] = []
            for letter in fresh:
                try:
                    taken[_take(rt, letter, dry_run=dry_run)] += 1
                    faults = 0
                    done.append(letter)
                except EnvelopeRefused as refusal:
                    refused[refusal.cause] += 1
                    faults = 0
                except EmailHeld:
                    postponed += 1  # of this letter alone: others may be about other emails
                except Unavailable:
                    postponed += 1
                    faults += 1
                    if faults == FAULTS_IN_A_ROW:
                        raise
            if not dry_run:
                letters.delete([letter.receipt for letter in done])
                for letter in done:
                    del held[letter.id]
            tell(so_far())
        return _done(so_far(), dry_run=dry_run)
    finally:
        _give_back(letters, list(held.values()))


def _give_back(letters: DeadLetters, receipts: list[str]) -> None:
    try:
        letters.give_back(receipts)
    except Unavailable as fault:
        # The queue shows them again by itself after a while; what was done stays done.
        journal.stage("redrive.not_given_back", letters=len(receipts), why=str(fault))


def _take(rt: Runtime, letter: DeadLetter, *, dry_run: bool) -> Taken:
    if not dry_run:
        return ingest.accept(rt, {}, letter.body)
    envelope = rt.read_envelope({}, letter.body)
    if not isinstance(envelope, Notification):
        return Taken.OFFER
    with rt.db.transaction() as tx:
        known = events.known(tx, envelope.topic_arn, envelope.sns_message_id)
    return Taken.DUPLICATE if known else Taken.STORED


def _done(end: Redriven, *, dry_run: bool) -> Redriven:
    journal.stage("redrive.done", seen=end.seen, left=end.left, dry_run=dry_run)
    return end
