"""The send threads: they call SES and do nothing else, one call each at a time.

They take from one queue, in which there is a little more than they can call at once: whoever is done
goes on with the next call without waiting for the drain's turn. What a call ended in goes to a list,
and the drain is woken for the first, for enough of them and for the last, not for each.
"""

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from mail_service.domain.outcomes import Unknown
from mail_service.ports import OutgoingEmail
from mail_service.runtime import Runtime
from mail_service.workflows import dispatch, journal
from mail_service.workflows.dispatch import Claim, Ended

GATHER_SECONDS = 0.005
"""How long a result waits for company. With a turn's claim and record on top, no longer than what is
leased ahead keeps the threads busy: at 50 ms a call, a quarter ahead lasts 12 ms."""


class Callers:
    """Used by the drain's thread alone, but for :meth:`stop`. ``wake`` wakes the drain."""

    def __init__(self, rt: Runtime, slots: int, wake: Callable[[], None]) -> None:
        self._rt = rt
        self._slots = slots
        self._wake = wake
        self._enough = max(1, slots // 2)
        self._jobs: SimpleQueue[tuple[Claim, OutgoingEmail] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._ended: list[Ended] = []
        self._unused: list[Claim] = []
        self._first_at = 0.0
        self._stopping = False
        self.out = 0
        """How many claims are with us, called or not, and not yet collected."""

    def start(self) -> None:
        """Start the threads."""
        for number in range(self._slots):
            threading.Thread(target=self._run, name=f"send-{number}", daemon=True).start()

    def stop(self) -> None:
        """Begin no further call. Those under way run to their end."""
        self._stopping = True

    def end(self) -> None:
        """Let the threads end once they are idle."""
        for _ in range(self._slots):
            self._jobs.put(None)

    def call(self, claim: Claim, outgoing: OutgoingEmail) -> None:
        """Have a call made by the next thread that is free."""
        self.out += 1
        self._jobs.put((claim, outgoing))

    def patience(self) -> float:
        """Give the seconds that results may wait for company; 0 when enough came, or none will come."""
        with self._lock:
            done = len(self._ended) + len(self._unused)
            first_at = self._first_at
        if not 0 < done < min(self._enough, self.out):
            return 0.0
        return max(0.0, first_at + GATHER_SECONDS - time.monotonic())

    def collect(self) -> tuple[list[Ended], list[Claim]]:
        """Give what calls ended in, and claims that were not called: they must be looked at again."""
        with self._lock:
            ended, self._ended = self._ended, []
            unused, self._unused = self._unused, []
        self.out -= len(ended) + len(unused)
        return ended, unused

    def take_back(self) -> list[Claim]:
        """Give the claims that no thread has begun to call."""
        back: list[Claim] = []
        while True:
            try:
                job = self._jobs.get_nowait()
            except Empty:
                self.out -= len(back)
                return back
            if job is not None:
                back.append(job[0])

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            claim, outgoing = job
            if self._stopping or not dispatch.may_begin(self._rt, claim):
                self._end(claim)
            else:
                self._end(self._call(claim, outgoing))

    def _call(self, claim: Claim, outgoing: OutgoingEmail) -> Ended:
        try:
            return dispatch.send(self._rt, claim, outgoing)
        except Exception as error:
            # The call may have gone out; whatever else is wrong, this thread must go on.
            journal.alarm("send_failed", attempt_id=claim.row.attempt_id, exc_info=error)
            return Ended(row=claim.row, result=Unknown(error_class="internal_error"))

    def _end(self, one: Ended | Claim) -> None:
        with self._lock:
            if isinstance(one, Claim):
                self._unused.append(one)
            else:
                self._ended.append(one)
            done = len(self._ended) + len(self._unused)
            if done == 1:
                self._first_at = time.monotonic()
        if done in {1, self._enough, self.out}:
            self._wake()
