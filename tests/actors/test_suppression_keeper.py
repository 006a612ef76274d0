"""The keeper of SES's suppression list, run for real on its own thread."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from threading import Event

import pytest

from actors.suppressions import Keeper
from mail_service.domain.suppression import Listed, SuppressionReason
from mail_service.errors import Unavailable
from mail_service.ports import ListPage
from mail_service.runtime import Runtime
from mail_service.workflows import operate, reconcile
from tests.conftest import Sql


@dataclass
class ScriptedList:
    """SES's list in memory; down while told so, and able to make a call hang."""

    entries: dict[str, SuppressionReason] = field(default_factory=dict[str, SuppressionReason])
    down: bool = False
    hang: Event | None = None
    pages: int = 0
    refused: int = 0

    def page(self, after: str | None, since: datetime | None) -> ListPage:
        self._call()
        self.pages += 1
        at = datetime(2026, 1, 1, tzinfo=UTC)
        found = [Listed(address=a, reason=r, at=at) for a, r in self.entries.items()]
        return ListPage(entries=tuple(found), unreadable=0, next=None)

    def find(self, address: str) -> Listed | None:
        self._call()
        reason = self.entries.get(address)
        at = datetime(2026, 1, 1, tzinfo=UTC)
        return Listed(address=address, reason=reason, at=at) if reason else None

    def put(self, address: str, reason: SuppressionReason) -> None:
        self._call()
        self.entries[address] = reason

    def delete(self, address: str) -> bool:
        self._call()
        return self.entries.pop(address, None) is not None

    def _call(self) -> None:
        if self.hang is not None:
            self.hang.wait(20)
        if self.down:
            self.refused += 1
            raise Unavailable("SES is down")


def wait_until(true: Callable[[], bool], seconds: float = 30) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def ses() -> ScriptedList:
    return ScriptedList()


@pytest.fixture
def keeper(runtime_of: Callable[..., Runtime], ses: ScriptedList) -> Iterator[Keeper]:
    keeper = Keeper(replace(runtime_of(SWEEP_SECONDS="0.1"), ses_list=ses))
    keeper.start()
    yield keeper
    keeper.stop(20)


def test_it_syncs_at_its_start_and_tells_ses_what_was_decided(
    keeper: Keeper, ses: ScriptedList, rt: Runtime, sql: Sql
) -> None:
    ses.entries["old@example.com"] = SuppressionReason.COMPLAINT
    wait_until(lambda: ses.pages > 0)
    row, _ = operate.suppress(rt, address="ada@example.com", note=None, by="test")
    wait_until(lambda: "ada@example.com" in ses.entries)
    operate.release(
        rt, row.id, rule=operate.ReleaseRule.OPERATOR_ERROR, reason="r", confirmed=False, by="test"
    )
    wait_until(lambda: "ada@example.com" not in ses.entries)
    wait_until(
        lambda: (
            sql.one("SELECT ses_state::text FROM mail_service.suppressions WHERE id = %s", row.id)
            == "deleted"
        )
    )
    assert ses.pages == 1


def test_while_ses_is_down_it_waits_and_a_hint_wakes_it(
    keeper: Keeper, ses: ScriptedList, sql: Sql
) -> None:
    ses.down = True
    failed = "SELECT count(*) FROM mail_service.suppression_syncs WHERE error = 'SES is down'"
    wait_until(lambda: sql.one(failed) == 1)
    ses.down = False
    keeper.wake()
    wait_until(lambda: ses.pages == 1)
    assert sql.one(failed) == 1


def test_what_the_sweep_found_is_told_at_once_and_never_cuts_a_back_off_short(
    runtime_of: Callable[..., Runtime], ses: ScriptedList, rt: Runtime
) -> None:
    """By itself this one would look once an hour, so it does what it is told alone."""
    keeper = Keeper(replace(runtime_of(SWEEP_SECONDS="300"), ses_list=ses))
    keeper.start()
    try:
        keeper.wake()
        wait_until(lambda: ses.pages == 1)
        operate.suppress(rt, address="ada@example.com", note=None, by="test")
        swept = reconcile.sweep(rt)
        assert swept is not None
        assert swept.list_changes
        wait_until(keeper.hear)
        wait_until(lambda: "ada@example.com" in ses.entries)
        ses.down = True
        operate.suppress(rt, address="bea@example.com", note=None, by="test")
        # It is deaf while it looks, too: only a call that failed begins a back-off.
        wait_until(lambda: not keeper.hear() and ses.refused > 0)
        ses.down = False
        operate.suppress(rt, address="cid@example.com", note=None, by="test")
        assert not keeper.hear()
        keeper.wake()
        wait_until(lambda: "cid@example.com" in ses.entries)
        wait_until(keeper.hear)
    finally:
        keeper.stop(20)


def test_it_stops_at_once_whatever_it_waits_for(
    runtime_of: Callable[..., Runtime], ses: ScriptedList, sql: Sql
) -> None:
    ses.hang = Event()
    keeper = Keeper(replace(runtime_of(SWEEP_SECONDS="0.1"), ses_list=ses))
    keeper.start()
    running = "SELECT count(*) FROM mail_service.suppression_syncs WHERE finished_at IS NULL"
    wait_until(lambda: sql.one(running) == 1)
    keeper.stop(0.1)  # the call hangs; the process would end here
    ses.hang.set()
    keeper.stop(20)
    assert sql.one(running) == 0


def test_once_stopped_it_makes_no_further_call(
    runtime_of: Callable[..., Runtime], ses: ScriptedList, sql: Sql
) -> None:
    rt = runtime_of(SWEEP_SECONDS="0.1")
    for n in range(30):
        operate.suppress(rt, address=f"m{n}@example.com", note=None, by="test")
    keeper = Keeper(replace(rt, ses_list=ses))
    keeper.start()
    wait_until(lambda: bool(ses.entries))
    keeper.stop(20)
    assert len(ses.entries) < 30
    # What it had in hand is free for the next worker.
    taken = (
        "SELECT count(*) FROM mail_service.suppressions WHERE ses_next_at > mail_service.clock()"
    )
    assert sql.one(taken) == 0
