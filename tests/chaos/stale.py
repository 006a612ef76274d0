"""The blow that aims at the token: a worker is stopped in a call and goes on beside a second epoch.

Its email is made for it: the world always takes such mail and answers slowly, its events are held
back, and policy may send it again. So nothing of it is left to luck but a fault on the wire, and then
it is tried again with another email.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg

from mail_service.sandbox.knobs import EVENT_KINDS
from tests.campaign.stage import moments
from tests.chaos.stage import Stage
from tests.journeys.programs import Program

TRIES = 4
CALLED_WITHIN = 40.0
AGAIN_WITHIN = 75.0
"""Lease, policy's wait, and whatever hold is open meanwhile or backlog is before it."""

_NEWEST = """
SELECT o.state::text, o.epoch, a.request_tag, a.state::text AS attempt, a.epoch AS of_epoch, c.worker
FROM mail_service.email_outbox o
LEFT JOIN mail_service.send_attempts a ON a.email_id = o.id AND a.number = o.attempts
LEFT JOIN campaign.claims c ON c.attempt_id = a.id
WHERE o.id = %s
"""


class Stale:
    """Strikes until a stale worker went on beside a second epoch, or ``TRIES`` emails were used up.

    ``ask`` submits an email and gives its id; ``freeze`` and ``thaw`` stop a worker and let it go on.
    """

    def __init__(
        self,
        stage: Stage,
        ask: Callable[[], str | None],
        freeze: Callable[[Program], None],
        thaw: Callable[[Program], None],
    ) -> None:
        self._stage = stage
        self._ask = ask
        self._freeze = freeze
        self._thaw = thaw
        self.frozen = 0

    def strike(self) -> bool:
        """Give whether it was met."""
        self._stage.knobs(hold_events=EVENT_KINDS, hold_local_parts=["slow"])
        try:
            return any(self._once() for _ in range(TRIES))
        finally:
            self._stage.knobs(hold_events=[], hold_local_parts=[])
            self._stage.release()

    def _once(self) -> bool:
        email = self._ask()
        worker = None if email is None else self._caller(email)
        if email is None or worker is None:
            return False
        self._freeze(worker)
        tag = self._calling(self._look(email))
        if tag is None:
            self._thaw(worker)
            return False
        self.frozen += 1
        met = self._sent_again(email, worker)
        self._thaw(worker)
        if met:
            self._wait_for_its_word(tag)
        return met

    def _caller(self, email: str) -> Program | None:
        """Wait until a worker is in the first call; None when it never will be."""
        for _ in moments(CALLED_WITHIN, 0.05):
            row = self._look(email)
            if row["epoch"] or row["state"] not in {"pending", "sending"}:
                return None
            if self._calling(row):
                names = {worker.name: worker for worker in self._stage.workers.values()}
                return names.get(row["worker"])
        return None

    def _calling(self, row: dict[str, Any]) -> str | None:
        """Give the tag of the first epoch's call while SES has it and has not answered."""
        self._stage.calls.refresh()
        seen = self._stage.calls.by_tag.get(row["request_tag"] or "", [])
        called = row["state"] == "sending" and row["attempt"] == "started" and not row["of_epoch"]
        return row["request_tag"] if called and seen[-1:] == ["accepted"] else None

    def _sent_again(self, email: str, worker: Program) -> bool:
        """Wait until somebody else is in the second epoch's call."""
        for _ in moments(AGAIN_WITHIN, 0.05):
            row = self._look(email)
            if row["state"] == "sending" and row["of_epoch"]:
                return row["worker"] != worker.name
            if row["state"] not in {"pending", "sending", "ambiguous"}:
                return False
        return False

    def _wait_for_its_word(self, tag: str) -> None:
        """Let what the stale worker has to say be recorded, so that it is judged at once."""
        for _ in moments(5, 0.05):
            rows = self._stage.sql(
                "SELECT 1 FROM mail_service.send_attempts"
                " WHERE request_tag = %s AND finished_at IS NOT NULL AND resolved_by = 'worker'",
                tag,
            )
            if rows:
                return

    def _look(self, email: str) -> dict[str, Any]:
        for _ in moments(30, 0.1):
            try:
                (row,) = self._stage.sql(_NEWEST, email)
            except psycopg.OperationalError:
                continue
            return row
        raise AssertionError("the database did not come back")
