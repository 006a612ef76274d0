"""What SES's own suppression list knows becomes ours, page by page.

An entry that a release covers is never taken in: it is deleted at SES, again. A sync of the newest
entries each hour is short; one of the whole list each day also sees what is gone from it.
"""

from collections.abc import Callable
from functools import partial

from mail_service.domain.address import AddressInvalid, keyed_hash
from mail_service.domain.suppression import UNDATED, Listed
from mail_service.errors import Conflict, Unavailable
from mail_service.ports import ListPage
from mail_service.runtime import Runtime
from mail_service.store import ses_list, suppression_syncs
from mail_service.store.database import Tx
from mail_service.store.ses_list import Effect
from mail_service.store.suppression_syncs import Drift, Sync
from mail_service.workflows import journal
from mail_service.workflows.suppression_calls import Pause, ask

RECENT_EVERY_SECONDS = 3600.0
FULL_EVERY_SECONDS = 24 * 3600.0


def begin(rt: Runtime, *, full: bool, by: str) -> Sync:
    """Begin a sync, to be read by :func:`read`. Raises Conflict while another one is under way.

    Without ``full`` it is about what SES changed since the last one, unless there was none.
    """

    def write(tx: Tx) -> Sync | None:
        suppression_syncs.close_lost(tx)
        return suppression_syncs.begin(tx, sync_id=rt.new_id(), full=full, by=by)

    running = rt.db.transact(write)
    if running is None:
        raise Conflict("another sync of the suppression list is under way")
    return running


def read(
    rt: Runtime, running: Sync, *, pause: Pause, tell: Callable[[Sync], None] = lambda _: None
) -> Sync:
    """Read SES's list and take in what it says; gives the sync, whose ``error`` says why it failed.

    ``tell`` hears of each page.
    """
    try:
        undated = _read_all(rt, running, pause, tell)
    except Unavailable as fault:
        ended = _end(rt, running, str(fault))
        journal.alarm("suppression_sync_failed", why=ended.error)
        return ended
    except BaseException:
        _end(rt, running, "it was stopped")
        raise
    if undated:
        journal.alarm("suppression_entries_undated", count=undated)
    return _end(rt, running, None)


def sync_if_due(
    rt: Runtime, *, by: str, pause: Pause, tell: Callable[[Sync], None] = lambda _: None
) -> Sync | None:
    """Sync when the last one is an hour old, all of the list when that is a day old."""
    with rt.db.transaction() as tx:
        due = suppression_syncs.due(
            tx, recent_seconds=RECENT_EVERY_SECONDS, full_seconds=FULL_EVERY_SECONDS
        )
    if due is None:
        return None
    try:
        running = begin(rt, full=due == "full", by=by)
    except Conflict:
        return None
    return read(rt, running, pause=pause, tell=tell)


def drift(rt: Runtime) -> Drift:
    """Give how far the two lists differ."""
    with rt.db.transaction() as tx:
        return suppression_syncs.drift(tx)


def _read_all(rt: Runtime, running: Sync, pause: Pause, tell: Callable[[Sync], None]) -> int:
    """Take in every page; gives how many entries bore no possible time."""
    place: str | None = None
    undated = 0
    while True:
        page = ask(rt, pause, partial(rt.ses_list.page, place, running.since))
        so_far, odd = rt.db.transact(partial(_take_in, rt, running, page))
        undated += odd
        tell(so_far)
        if page.next is None:
            return undated
        if page.next == place:
            raise Unavailable("SES gave the same page of its list twice")
        place = page.next


def _take_in(rt: Runtime, running: Sync, page: ListPage, tx: Tx) -> tuple[Sync, int]:
    """Take a page in and count it, in one transaction; gives how many entries bore no possible time."""
    unreadable = page.unreadable
    # SES may list several spellings of one mailbox; they are taken in one after the other.
    rounds: list[dict[bytes, Listed]] = [{}]
    for entry in page.entries:
        try:
            hashed = keyed_hash(rt.address_key, entry.address)
        except AddressInvalid:
            unreadable += 1
            continue
        fitting = next((one for one in rounds if hashed not in one), None)
        if fitting is None:
            rounds.append(fitting := {})
        fitting[hashed] = entry
    effects = [
        ses_list.take_in(tx, {hashed: (rt.new_id(), entry) for hashed, entry in one.items()})
        for one in rounds
    ]
    effect = Effect(
        added=sum(one.added for one in effects),
        strengthened=sum(one.strengthened for one in effects),
        released=sum(one.released for one in effects),
    )
    counted = suppression_syncs.add_page(
        tx, running.id, effect, listed=len(page.entries), unreadable=unreadable
    )
    if counted is None:
        raise Unavailable("it took so long that it was given up")
    return counted, sum(entry.dated(tx.now) == UNDATED for entry in page.entries)


def _end(rt: Runtime, running: Sync, error: str | None) -> Sync:
    def write(tx: Tx) -> Sync | None:
        if error is None and running.scope == "full":
            suppression_syncs.mark_absent(tx, running.started_at)
        return suppression_syncs.finish(tx, running.id, error)

    ended = rt.db.transact(write)
    if ended is None:
        raise Unavailable("the sync took so long that it was given up")
    if ended.unreadable:
        journal.alarm("suppression_entries_unreadable", count=ended.unreadable)
    journal.stage(
        "suppression.synced",
        scope=ended.scope,
        error=ended.error,
        listed=ended.listed,
        added=ended.added,
        strengthened=ended.strengthened,
        released=ended.released,
    )
    return ended
