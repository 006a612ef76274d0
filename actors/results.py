"""What calls ended in, held until it is recorded: nothing that SES told us is dropped.

Used by the drain's thread alone, but for :meth:`Results.tell`, the last words of a process.
"""

import time
from collections.abc import Iterable

from mail_service.domain.outcomes import Accepted
from mail_service.errors import Unavailable
from mail_service.runtime import Runtime
from mail_service.workflows import journal, record
from mail_service.workflows.dispatch import Ended

BUSY_ROW_SECONDS = 0.05
DATABASE_AWAY_SECONDS = 0.5
UNUSABLE_SECONDS = 5.0


class Results:
    """The results that are not yet recorded."""

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt
        self._ended: list[Ended] = []
        self._not_before = 0.0

    def __bool__(self) -> bool:
        return bool(self._ended)

    def add(self, ended: Iterable[Ended]) -> None:
        """Hold these, too."""
        self._ended += ended

    def are_fair(self) -> bool:
        """Whether none of them may open a hold or slow the rate, which the next claim must know."""
        return all(isinstance(ended.result, Accepted) for ended in self._ended)

    def seconds_until_due(self) -> float | None:
        """Give the time until they may be recorded, 0 or less for now; None when there are none."""
        return self._not_before - time.monotonic() if self._ended else None

    def record(self) -> None:
        """Record what can be recorded. What can't is held, and due again a while later.

        Never raises for the database: the results are held until it is back, or the process must stop.
        """
        now = time.monotonic()
        try:
            self._ended = record.results(self._rt, self._ended)
            self._not_before = now + BUSY_ROW_SECONDS if self._ended else 0.0
        except Unavailable as away:
            journal.alarm("results_held", count=len(self._ended), why=str(away))
            self._not_before = now + DATABASE_AWAY_SECONDS
        except Exception:
            if len(self._ended) == 1:
                self._not_before = now + UNUSABLE_SECONDS
                raise
            self._record_one_by_one()

    def _record_one_by_one(self) -> None:
        """Record what can be recorded, so that one result that can't does not keep the others."""
        group, self._ended = self._ended, []
        for ended in group:
            try:
                self._ended += record.results(self._rt, [ended])
            except Exception as error:
                journal.alarm("result_unusable", attempt_id=ended.row.attempt_id, exc_info=error)
                self._ended.append(ended)
        self._not_before = time.monotonic() + UNUSABLE_SECONDS

    def tell(self) -> None:
        """Log them, once: enough to settle each email by hand. They are held no longer."""
        ended, self._ended = self._ended, []
        for one in ended:
            accepted = one.result if isinstance(one.result, Accepted) else None
            journal.alarm(
                "result_not_recorded",
                attempt_id=one.row.attempt_id,
                result=type(one.result).__name__,
                provider_message_id=accepted.provider_message_id if accepted else None,
            )
