"""SES's suppression list for tests: the real client, on the sandbox, with a wait that moves the clock."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg

from mail_service.domain.suppression import Listed, ReleaseRule, SuppressionReason
from mail_service.gateways.ses import ses_client
from mail_service.gateways.ses_suppressions import SesSuppressionList
from mail_service.ports import ListPage
from mail_service.runtime import Runtime
from mail_service.sandbox import Sandbox
from mail_service.store.suppression_syncs import Sync
from mail_service.workflows import operate, suppression_changes, suppression_sync
from tests.conftest import Sql


@dataclass
class WatchedList:
    """The real list; before each call it is noted, and no transaction may be open."""

    real: SesSuppressionList
    url: str
    calls: list[str] = field(default_factory=list[str])
    times: list[datetime] = field(default_factory=list[datetime])

    def page(self, after: str | None, since: datetime | None) -> ListPage:
        self._note("page")
        return self.real.page(after, since)

    def find(self, address: str) -> Listed | None:
        self._note("find")
        return self.real.find(address)

    def put(self, address: str, reason: SuppressionReason) -> None:
        self._note("put")
        self.real.put(address, reason)

    def delete(self, address: str) -> bool:
        self._note("delete")
        return self.real.delete(address)

    def _note(self, call: str) -> None:
        self.calls.append(call)
        with psycopg.connect(self.url, autocommit=True) as connection:
            seen = connection.execute(
                "SELECT mail_service.clock(), (SELECT count(*) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name = 'tests' "
                "AND state LIKE 'idle in transaction%')"
            ).fetchone()
        assert seen is not None
        self.times.append(seen[0])
        assert seen[1] == 0


@dataclass
class Lists:
    """Ours and SES's, and what is done to make them agree."""

    rt: Runtime
    sql: Sql
    sandbox: Sandbox
    ses: WatchedList
    pauses: list[float] = field(default_factory=list[float])

    def pause(self, seconds: float) -> None:
        """Let the database's time pass instead of ours."""
        self.pauses.append(seconds)
        self.sql.advance(seconds)

    def sync(self, *, full: bool = True) -> Sync:
        """Sync, as the command and the worker do."""
        running = suppression_sync.begin(self.rt, full=full, by="test")
        return suppression_sync.read(self.rt, running, pause=self.pause)

    def carry_out(self) -> str | None:
        """Tell SES what was decided."""
        return suppression_changes.carry_out(self.rt, pause=self.pause)

    def add(self, address: str = "ada@example.com") -> UUID:
        """Suppress by hand."""
        return operate.suppress(self.rt, address=address, note=None, by="test")[0].id

    def release(self, which: UUID, *, complaint: bool = False) -> None:
        """Release by a person."""
        rule = ReleaseRule.CONSENT_RENEWED if complaint else ReleaseRule.OPERATOR_ERROR
        operate.release(self.rt, which, rule=rule, reason="test", confirmed=complaint, by="test")

    def at_ses(self, *addresses: str, reason: str = "BOUNCE", ahead: float = 0) -> None:
        """Have SES list addresses, dated by the database's clock plus some seconds."""
        now = self.sql.one("SELECT extract(epoch FROM mail_service.clock())::double precision")
        for address in addresses:
            self.sandbox.list_suppressed(address, reason, now + ahead)

    def active(self, address: str = "ada@example.com") -> dict[str, Any] | None:
        """Give the row that stands for an address."""
        found = self.sql(
            "SELECT * FROM mail_service.suppressions WHERE released_at IS NULL "
            "AND lower(address) = lower(%s)",
            address,
        )
        return found[0] if found else None

    def state(self, which: UUID) -> str:
        """Give what is known of SES's list."""
        return str(
            self.sql.one("SELECT ses_state FROM mail_service.suppressions WHERE id = %s", which)
        )


@contextmanager
def lists(rt: Runtime, sql: Sql, sandbox: Sandbox) -> Iterator[Lists]:
    """Give both lists, empty."""
    client = ses_client("eu-west-1", sandbox.url, 20, 20, 1)
    watched = WatchedList(SesSuppressionList(lambda: client), sql.url)
    try:
        yield Lists(replace(rt, ses_list=watched), sql, sandbox, watched)
    finally:
        client.close()
