"""Watches the database from outside, ten times a second: what no log tells afterwards.

How many connections the product has, which of them are idle in a transaction, when the database can't
be asked, and what a connection keeps locked through which nothing passes any more.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.chaos.notes import ROLE

EVERY = 0.1
IDLE_SECONDS = 1.9
"""How long a transaction may be idle, with nothing wrong on its connection (S20).

A call that hangs takes two seconds here. On a machine that is busy a process may not be let run for one.
"""

_SWEEP = 7_205_519_340_026_414
"""The advisory lock of the sweep."""

_LOOK = f"""
SELECT a.client_port, a.application_name, a.backend_xid::text AS xid, a.query,
       CASE WHEN a.state LIKE 'idle in transaction%'
            THEN extract(epoch FROM clock_timestamp() - a.state_change)::float ELSE 0 END AS idle,
       EXISTS (SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'advisory' AND l.granted
                 AND (l.classid::bigint << 32) | l.objid::bigint = {_SWEEP}) AS sweeping
FROM pg_stat_activity a WHERE a.usename = '{ROLE}'
"""
_LOCKED = """
SELECT id::text FROM mail_service.email_outbox
WHERE state = 'sending' AND xmax::text = ANY(%s)
"""
Span = tuple[float, float]


@dataclass
class Seen:
    """What was seen. Spans are seconds of the wall clock, which the database shares."""

    looks: int = 0
    most: int = 0
    idle: list[str] = field(default_factory=list)
    """Transactions that were idle for too long."""
    away: list[Span] = field(default_factory=list)
    """When the database could not be asked."""
    swept_by_nobody: list[Span] = field(default_factory=list)
    """When the right to sweep was held through a connection through which nothing passes."""
    locked: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    """When an email's row was held in the same way."""


class Witness:
    """Looks on a thread of its own. ``stuck`` says of a port whether nothing passes from there."""

    def __init__(self, url: str, stuck: Callable[[int], bool]) -> None:
        self._url = url
        self._stuck = stuck
        self._stop = threading.Event()
        self._connection: psycopg.Connection[dict[str, Any]] | None = None
        self._looked = time.time()
        self.seen = Seen()
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End."""
        self._stop.set()
        self._thread.join(30)

    def _run(self) -> None:
        missed = False
        while not self._stop.wait(EVERY):
            try:
                self._look()
            except psycopg.Error:
                missed = True
                self._close()
                continue
            if missed:
                self.seen.away.append((self._looked, time.time()))
            missed, self._looked = False, time.time()
        self._close()

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
            self._connection = None

    def _look(self) -> None:
        if self._connection is None:
            self._connection = psycopg.connect(
                self._url, autocommit=True, row_factory=dict_row, application_name="tests"
            )
        rows = self._connection.execute(_LOOK).fetchall()
        seen, span = self.seen, (self._looked, time.time() + EVERY)
        seen.looks += 1
        seen.most = max(seen.most, len(rows))
        stuck = [row for row in rows if self._stuck(row["client_port"])]
        for row in rows:
            if row["idle"] > IDLE_SECONDS and row not in stuck:
                query = " ".join(row["query"].split())[:100]
                seen.idle.append(f"{row['application_name']} for {row['idle']:.1f} s after {query}")
        if any(row["sweeping"] for row in stuck):
            seen.swept_by_nobody.append(span)
        if xids := [row["xid"] for row in stuck if row["xid"]]:
            for row in self._connection.execute(_LOCKED, (xids,)).fetchall():
                seen.locked[row["id"]].append(span)
