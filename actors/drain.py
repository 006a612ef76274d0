"""The drain: one loop per worker process that claims, hands over, and records, from boot to stop.

One thread owns the database and does nothing slow; ``slots`` send threads call SES and nothing else.
So no call waits for the database and no transaction waits for a call. Per turn: record whatever
came back, claim for the free slots, hand over, wait. What the loop holds in memory, a kill turns into
doubt, so it leases at most a quarter more than it has slots for.
"""

import os
import threading
import time
from collections import deque
from dataclasses import replace
from queue import Empty, SimpleQueue

from mail_service.domain.outcomes import Accepted, Released, Unknown
from mail_service.errors import Unavailable
from mail_service.ports import OutgoingEmail
from mail_service.runtime import Runtime
from mail_service.store.line import Line
from mail_service.workflows import dispatch, journal, reconcile
from mail_service.workflows.dispatch import Claim, Ended

AHEAD = 1.25
POLL_SECONDS = 5.0
GATHER_SECONDS = 0.002
BUSY_ROW_SECONDS = 0.05
HELD_ROW_SECONDS = 0.25
DATABASE_AWAY_SECONDS = 0.5
SWEEPS_MISSED = 3


class Drain:
    """Runs on a thread of its own; :meth:`wake` and :meth:`stop` may be called from any other."""

    def __init__(self, rt: Runtime, line: Line, *, stop_within_seconds: float = 21.0) -> None:
        self._rt = replace(rt, db=line)
        self._line = line
        self._slots = rt.settings.send_concurrency
        self._stop_within = stop_within_seconds
        self._stop_at: float | None = None
        self._woken = True
        self._jobs: SimpleQueue[tuple[Claim, OutgoingEmail] | None] = SimpleQueue()
        self._ended: SimpleQueue[Ended] = SimpleQueue()
        self._in_flight = 0
        self._waiting: deque[Claim] = deque()
        self._unrecorded: list[Ended] = []
        self._record_at = 0.0
        self._poll_at = 0.0
        self._probe_at = 0.0
        self._sweep_check_at = time.monotonic() + POLL_SECONDS
        self._waker, self._waker_end = os.pipe()
        os.set_blocking(self._waker, False)
        os.set_blocking(self._waker_end, False)

    def wake(self) -> None:
        """Look for due mail now."""
        self._woken = True
        self._poke()

    def stop(self) -> None:
        """Claim no more, let calls in flight end, record them, release the rest, and return."""
        self._stop_at = time.monotonic() + self._stop_within
        self._poke()

    def run(self) -> None:
        """Drain until stopped. An unforeseen error raises an alarm and the loop goes on."""
        threads = [
            threading.Thread(target=self._send_loop, name=f"send-{n}", daemon=True)
            for n in range(self._slots)
        ]
        for thread in threads:
            thread.start()
        while not self._finished():
            try:
                self._turn()
            except Exception as error:
                journal.alarm("drain_failed", error=type(error).__name__, exc_info=error)
                self._line.wait(1.0, self._waker)
        for _ in threads:
            self._jobs.put(None)
        self._line.close()

    def _turn(self) -> None:
        self._gather()
        self._record()
        if self._stop_at is None:
            self._probe()
            self._claim()
            self._hand_over()
            self._sweep_if_nobody_does()
        else:
            self._give_back()
        self._wait()

    def _finished(self) -> bool:
        if self._stop_at is None:
            return False
        if not self._in_flight and not self._waiting and not self._unrecorded:
            return True
        if time.monotonic() < self._stop_at:
            return False
        self.last_words()
        return True

    def _gather(self) -> None:
        """Collect what came back; wait a moment for company, since a group costs one commit."""
        came = self._collect()
        if came and self._in_flight:
            time.sleep(GATHER_SECONDS)
            self._collect()

    def _collect(self) -> int:
        came = 0
        while True:
            try:
                self._unrecorded.append(self._ended.get_nowait())
            except Empty:
                return came
            came += 1
            self._in_flight -= 1

    def _record(self) -> None:
        now = time.monotonic()
        if not self._unrecorded or now < self._record_at:
            return
        try:
            if not all(isinstance(ended.result, Accepted) for ended in self._unrecorded):
                # These may open a hold, whose first probe must not wait for a poll.
                self._probe_at = min(self._probe_at, now + HELD_ROW_SECONDS)
            self._unrecorded = dispatch.record(self._rt, self._unrecorded)
            self._record_at = now + BUSY_ROW_SECONDS if self._unrecorded else 0.0
        except Unavailable as away:
            # The results are held until the database is back, or the process must stop.
            journal.alarm("results_held", count=len(self._unrecorded), why=str(away))
            self._record_at = now + DATABASE_AWAY_SECONDS
        except Exception:
            if len(self._unrecorded) == 1:
                self._record_at = now + POLL_SECONDS
                raise
            self._record_one_by_one()

    def _record_one_by_one(self) -> None:
        """Record what can be recorded, so that one result that can't does not keep the others."""
        group, self._unrecorded = self._unrecorded, []
        for ended in group:
            try:
                self._unrecorded += dispatch.record(self._rt, [ended])
            except Exception as error:
                journal.alarm("result_unusable", attempt_id=ended.row.attempt_id, exc_info=error)
                self._unrecorded.append(ended)
        self._record_at = time.monotonic() + POLL_SECONDS

    def _claim(self) -> None:
        now = time.monotonic()
        if not self._woken and now < self._poll_at:
            return
        want = int(self._slots * AHEAD) - self._in_flight - len(self._waiting)
        if want <= 0:
            return
        self._woken = False
        try:
            claims = dispatch.take(self._rt, want)
            self._waiting.extend(claims)
            if len(claims) == want:
                self._woken = True
                return
            due = dispatch.seconds_until_due(self._rt)
            # Due and yet not claimed: somebody holds the row. Asked again soon, but not at once.
            soon = POLL_SECONDS if due is None else max(HELD_ROW_SECONDS, due)
            self._poll_at = time.monotonic() + min(POLL_SECONDS, soon)
        except Unavailable as away:
            journal.alarm("claim_failed", why=str(away))
            self._poll_at = now + 1.0

    def _probe(self) -> None:
        """Send one email for each hold whose time has come, ahead of everything that waits."""
        now = time.monotonic()
        if now < self._probe_at:
            return
        self._probe_at = now + POLL_SECONDS
        try:
            probes, look_again = dispatch.take_probes(self._rt)
        except Unavailable as away:
            journal.alarm("claim_failed", why=str(away))
            return
        self._waiting.extendleft(probes)
        if look_again is not None:
            self._probe_at = now + min(POLL_SECONDS, max(HELD_ROW_SECONDS, look_again))

    def _hand_over(self) -> None:
        free = self._slots - self._in_flight
        if free <= 0 or not self._waiting:
            return
        batch = [self._waiting.popleft() for _ in range(min(free, len(self._waiting)))]
        try:
            ready, back = dispatch.recheck(self._rt, batch)
        except Unavailable:
            # Nothing may be called on an old look at suppressions; looked at again next turn.
            self._waiting.extendleft(reversed(batch))
            return
        self._unrecorded.extend(back)
        for claim in ready:
            outgoing = dispatch.compose(self._rt, claim)
            if isinstance(outgoing, OutgoingEmail):
                self._in_flight += 1
                self._jobs.put((claim, outgoing))
            else:
                self._unrecorded.append(Ended(row=claim.row, result=outgoing))

    def _give_back(self) -> None:
        while self._waiting:
            self._unrecorded.append(Ended(row=self._waiting.popleft().row, result=Released()))

    def _sweep_if_nobody_does(self) -> None:
        now = time.monotonic()
        if now < self._sweep_check_at:
            return
        missed = SWEEPS_MISSED * self._rt.settings.sweep_seconds
        self._sweep_check_at = now + min(POLL_SECONDS, missed)
        try:
            if reconcile.overdue(self._rt, missed):
                journal.stage("sweep.by_drain", missed_seconds=missed)
                reconcile.sweep(self._rt)
        except Unavailable as away:
            journal.alarm("sweep_failed", why=str(away))

    def _wait(self) -> None:
        now = time.monotonic()
        until = now + POLL_SECONDS
        if self._stop_at is not None:
            until = min(until, self._stop_at) if self._in_flight else now
        else:
            room = int(self._slots * AHEAD) - self._in_flight - len(self._waiting)
            if room > 0:
                until = min(until, now if self._woken else self._poll_at, self._sweep_check_at)
            until = min(until, self._probe_at)
            if self._waiting and self._in_flight < self._slots:
                until = min(until, now + BUSY_ROW_SECONDS)
        if self._unrecorded:
            until = min(until, self._record_at)
        if self._line.wait(until - now, self._waker):
            self._woken = True
        self._unpoke()

    def _send_loop(self) -> None:
        while (job := self._jobs.get()) is not None:
            claim, outgoing = job
            try:
                ended = dispatch.send(self._rt, claim, outgoing)
            except Exception as error:
                # The call may have gone out; whatever else is wrong, this thread must go on.
                journal.alarm("send_failed", attempt_id=claim.row.attempt_id, exc_info=error)
                ended = Ended(row=claim.row, result=Unknown(error_class="internal_error"))
            self._ended.put(ended)
            self._poke()

    def last_words(self) -> None:
        """Log what could not be recorded in time, once: enough to settle each email by hand."""
        self._collect()
        unrecorded, self._unrecorded = self._unrecorded, []
        for ended in unrecorded:
            accepted = ended.result if isinstance(ended.result, Accepted) else None
            journal.alarm(
                "result_not_recorded",
                attempt_id=ended.row.attempt_id,
                result=type(ended.result).__name__,
                provider_message_id=accepted.provider_message_id if accepted else None,
            )
        if self._in_flight:
            journal.alarm("calls_abandoned", count=self._in_flight)
            self._in_flight = 0

    def _poke(self) -> None:
        try:
            os.write(self._waker_end, b"!")
        except BlockingIOError:
            return  # full of pokes already

    def _unpoke(self) -> None:
        try:
            while os.read(self._waker, 4096):
                pass
        except BlockingIOError:
            return
