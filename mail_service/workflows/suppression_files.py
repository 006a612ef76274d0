"""Suppressions from a file and into one. An import only adds or strengthens; it never lifts anything."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from mail_service.domain.address import keyed_hash
from mail_service.domain.suppression_csv import BadLine, Entry, read
from mail_service.runtime import Runtime
from mail_service.store import stats, suppressions
from mail_service.store.database import Tx
from mail_service.store.suppressions import Suppression
from mail_service.workflows import journal

BATCH = 500
PAGE = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What became of the lines of a file; a bad line may be several that one quote holds together."""

    added: int = 0
    already: int = 0
    """Suppressed before, made stronger where the file says so."""
    covered: int = 0
    """Left out: a person released the mailbox after the line's ``created_at``."""
    bad: int = 0

    def __add__(self, other: "Imported") -> "Imported":
        return Imported(
            added=self.added + other.added,
            already=self.already + other.already,
            covered=self.covered + other.covered,
            bad=self.bad + other.bad,
        )


class _DryRun(Exception):
    """Undoes a batch; holds what it would have done."""

    def __init__(self, done: Imported, bad: Sequence[BadLine]) -> None:
        self.done = done
        self.bad = bad
        super().__init__()


def import_lines(
    rt: Runtime,
    lines: Iterable[str],
    *,
    by: str,
    dry_run: bool = False,
    report: Callable[[BadLine], None],
    tell: Callable[[int], None] = lambda _: None,
) -> Imported:
    """Suppress what a CSV file lists; good lines are taken in whatever the others are like.

    ``report`` hears of every bad line, ``tell`` how many lines are done. Safe to repeat. A line is as old
    as its ``created_at`` says, so a release after that time stands; without one it is a decision of now.
    """
    total = Imported()
    parsed = read(lines)
    while batch := list(islice(parsed, BATCH)):
        entries = [one for one in batch if isinstance(one, Entry)]
        bad = [one for one in batch if isinstance(one, BadLine)]
        try:
            done, late = rt.db.transact(
                lambda tx, entries=entries: _take_in(rt, tx, entries, by, dry_run)
            )
        except _DryRun as undone:
            done, late = undone.done, undone.bad
        for one in sorted([*bad, *late], key=lambda one: one.line):
            report(one)
        total += replace(done, bad=len(bad) + len(late))
        tell(batch[-1].last_line if isinstance(batch[-1], BadLine) else batch[-1].line)
    if not dry_run:
        journal.stage("suppression.imported", by=by, added=total.added, bad=total.bad)
    return total


def active(rt: Runtime) -> int:
    """Give how many suppressions stand."""
    with rt.db.transaction() as tx:
        return sum(one.count for one in stats.active_suppressions(tx))


def export(rt: Runtime) -> Iterator[Suppression]:
    """Give every suppression that stands, newest first, page by page."""
    after = None
    while True:
        with rt.db.transaction() as tx:
            page = suppressions.page(
                tx, address_hash=None, reason=None, active=True, after=after, limit=PAGE
            )
        yield from page
        if len(page) < PAGE:
            return
        after = (page[-1].created_at, page[-1].id)


def _take_in(
    rt: Runtime, tx: Tx, entries: Sequence[Entry], by: str, dry_run: bool
) -> tuple[Imported, list[BadLine]]:
    added = already = covered = 0
    late: list[BadLine] = []
    hashed = [(keyed_hash(rt.address_key, entry.address), entry) for entry in entries]
    # One order for everybody, so that two that suppress the same mailboxes can't block each other.
    for address_hash, entry in sorted(hashed, key=lambda one: one[0]):
        if entry.at is not None and entry.at > tx.now:
            late.append(
                BadLine(
                    line=entry.line,
                    last_line=entry.line,
                    field="created_at",
                    expected="expected a time that has passed",
                )
            )
            continue
        new_id = rt.new_id()
        standing = suppressions.suppress(
            tx,
            new_id=new_id,
            address_hash=address_hash,
            address=entry.address,
            reason=entry.reason,
            source=f"import by {by}",
            note=entry.note,
            evidence_at=entry.at,
            put_at_ses=True,
        )
        added += standing == new_id
        covered += standing is None
        already += standing not in {None, new_id}
    done = Imported(added=added, already=already, covered=covered)
    if dry_run:
        raise _DryRun(done, late)
    return done, late
