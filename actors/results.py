"""What calls ended in, held until it is recorded: nothing that SES told us is dropped.

Used by the drain's thread alone, but for :meth:`Results.tell`, the last words of a process.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from mail_service.domain.outcomes import Accepted
from mail_service.errors import Unavailable
from mail_service.runtime import Runtime
from mail_service.workflows import journal, record
from mail_service.workflows.dispatch import Ended

BUSY_ROW_SECONDS = 0.05
DATABASE_AWAY_SECONDS = 0.5
UNUSABLE_SECONDS = 5.0


@dataclass
class _Alone:
    """A result that could not be recorded among others: by a bug of ours, or its row was held."""

    ended: Ended
    not_before: float


class Results:
    """The results that are not yet recorded."""

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt
        self._ended: list[Ended] = []
        self._not_before = 0.0
        self._away_until = 0.0
        self._alone: list[_Alone] = []

    def __bool__(self) -> bool:
        return bool(self._ended or self._alone)

    def add(self, ended: Iterable[Ended]) -> None:
        """Hold these, too."""
        self._ended += ended

    def are_fair(self) -> bool:
        """Whether none of them may open a hold or slow the rate, which the next claim must know."""
        return all(isinstance(ended.result, Accepted) for ended in self._ended)

    def seconds_until_due(self) -> float | None:
        """Give the time until some may be recorded, 0 or less for now; None when there are none."""
        times = [one.not_before for one in self._alone]
        if self._ended:
            times.append(self._not_before)
        return max(min(times), self._away_until) - time.monotonic() if times else None

    def record(self) -> None:
        """Record what is due and can be. The rest is held, and due again a while later. Never raises."""
        now = time.monotonic()
        try:
            if self._ended and self._not_before <= now:
                self._record_together()
            for one in [one for one in self._alone if one.not_before <= now]:
                again = self._try(one.ended)
                if again is None:
                    self._alone = [other for other in self._alone if other is not one]
                else:
                    one.not_before = time.monotonic() + again
        except Unavailable as away:
            # Held until the database is back, or the process must stop.
            held = len(self._ended) + len(self._alone)
            journal.alarm("results_held", count=held, why=str(away))
            self._away_until = time.monotonic() + DATABASE_AWAY_SECONDS

    def _record_together(self) -> None:
        try:
            self._ended = record.results(self._rt, self._ended)
            self._not_before = time.monotonic() + BUSY_ROW_SECONDS if self._ended else 0.0
        except Unavailable:
            raise
        except Exception:
            # One by one, so that one that can't be recorded does not keep the others. Each is held until
            # it is recorded: a process that must stop meanwhile tells of it.
            for ended in self._ended.copy():
                again = self._try(ended)
                if again is not None:
                    self._alone.append(_Alone(ended, time.monotonic() + again))
                self._ended = [other for other in self._ended if other is not ended]

    def _try(self, ended: Ended) -> float | None:
        """Record one; gives the seconds until it is worth another try, None once it is recorded."""
        try:
            left = record.results(self._rt, [ended])
        except Unavailable:
            raise
        except Exception as error:
            journal.alarm("result_unusable", attempt_id=ended.row.attempt_id, exc_info=error)
            return UNUSABLE_SECONDS
        return BUSY_ROW_SECONDS if left else None

    def tell(self) -> None:
        """Log them, once: enough to settle each email by hand. They are held no longer."""
        ended = self._ended + [one.ended for one in self._alone]
        self._ended, self._alone = [], []
        for one in ended:
            accepted = one.result if isinstance(one.result, Accepted) else None
            journal.alarm(
                "result_not_recorded",
                attempt_id=one.row.attempt_id,
                result=type(one.result).__name__,
                provider_message_id=accepted.provider_message_id if accepted else None,
            )
