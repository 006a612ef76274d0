"""The drain: one loop per worker process that claims, hands over, and records, from boot to stop.

One thread owns the database and does nothing slow; the send threads (:mod:`actors.callers`) call SES
and nothing else. So no call waits for the database and no transaction waits for a call. Per turn:
record whatever came back, claim as much anew, hand over, wait. What the loop holds in memory, a kill
turns into doubt, so it leases at most a quarter more than it has slots for.
"""

import time
from dataclasses import replace

from actors.bell import Bell
from actors.callers import Callers
from actors.results import BUSY_ROW_SECONDS, Results
from mail_service.domain.outcomes import Released
from mail_service.errors import Unavailable
from mail_service.ports import OutgoingEmail
from mail_service.runtime import Runtime
from mail_service.store.line import Line
from mail_service.workflows import dispatch, journal, reconcile
from mail_service.workflows.dispatch import Claim, Ended
from mail_service.workflows.frontier import Frontier

AHEAD = 1.25
POLL_SECONDS = 5.0
HELD_ROW_SECONDS = 0.25
SWEEPS_MISSED = 3


class Drain:
    """Runs on a thread of its own; :meth:`wake` and :meth:`stop` may be called from any other."""

    def __init__(self, rt: Runtime, line: Line, *, stop_within_seconds: float = 21.0) -> None:
        self._rt = replace(rt, db=line)
        self._line = line
        self._capacity = int(rt.settings.send_concurrency * AHEAD)
        self._bell = Bell()
        self._callers = Callers(self._rt, rt.settings.send_concurrency, self._bell.ring)
        self._frontier = Frontier()
        self._stop_within = stop_within_seconds
        self._stop_at: float | None = None
        self._woken = True
        self._waiting: list[Claim] = []
        self._results = Results(self._rt)
        self._poll_at = 0.0
        self._probe_at = 0.0
        self._sweep_check_at = time.monotonic() + POLL_SECONDS

    def wake(self) -> None:
        """Look for due mail now."""
        self._woken = True
        self._bell.ring()

    def stop(self) -> None:
        """Claim no more, let calls in flight end, record them, release the rest, and return."""
        self._stop_at = time.monotonic() + self._stop_within
        self._callers.stop()
        self._bell.ring()

    def run(self) -> None:
        """Drain until stopped. An unforeseen error raises an alarm and the loop goes on."""
        self._callers.start()
        while not self._finished():
            try:
                self._turn()
            except Exception as error:
                journal.alarm("drain_failed", error=type(error).__name__, exc_info=error)
                self._line.wait(1.0, self._bell.fileno())
        self._callers.end()
        self._line.close()

    def _turn(self) -> None:
        self._gather()
        if self._stop_at is not None:
            self._record()
            self._give_back()
        elif self._results.are_fair():
            # Results keep, and the time of a slot that waits is lost.
            self._take_more()
            self._record()
        else:
            # These may open a hold or slow the rate, which the next claim must know.
            self._record()
            self._take_more()
        self._wait()

    def _take_more(self) -> None:
        self._probe()
        self._claim()
        self._hand_over()
        self._sweep_if_nobody_does()

    def _finished(self) -> bool:
        if self._stop_at is None:
            return False
        if not self._callers.out and not self._waiting and not self._results:
            return True
        if time.monotonic() < self._stop_at:
            return False
        self.last_words()
        return True

    def _gather(self) -> None:
        """Collect what came back; wait a moment for company, since a group costs one commit."""
        patience = self._callers.patience()
        if self._stop_at is None and patience:
            self._sleep(patience)
        self._collect()

    def _collect(self) -> None:
        ended, unused = self._callers.collect()
        self._results.add(ended)
        self._waiting += unused

    def _room(self) -> int:
        return self._capacity - self._callers.out - len(self._waiting)

    def _record(self) -> None:
        due = self._results.seconds_until_due()
        if due is None or due > 0:
            return
        if not self._results.are_fair():
            # These may open a hold, whose first probe must not wait for a poll.
            self._probe_at = min(self._probe_at, time.monotonic() + HELD_ROW_SECONDS)
        self._results.record()

    def _claim(self) -> None:
        now = time.monotonic()
        if not self._woken and now < self._poll_at:
            return
        want = self._room()
        if want <= 0:
            return
        try:
            if not self._woken and not self._is_due():
                return
            self._woken = False
            claims = dispatch.take(self._rt, want, self._frontier)
            self._waiting += claims
            if len(claims) == want:
                self._woken = True
                return
            self._hand_over()  # what is claimed need not wait for the next question
            # Due and yet not claimed: somebody holds the row. Asked again soon, but not at once.
            if self._is_due():
                self._poll_at = time.monotonic() + HELD_ROW_SECONDS
        except Unavailable as away:
            journal.alarm("claim_failed", why=str(away))
            self._poll_at = now + 1.0

    def _is_due(self) -> bool:
        """Ask whether mail is due, and note when to ask again if not."""
        due = dispatch.seconds_until_due(self._rt, self._frontier)
        wait = POLL_SECONDS if due is None else max(due, 0.0)
        self._poll_at = time.monotonic() + min(POLL_SECONDS, wait)
        return due is not None and due <= 0

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
        self._waiting[:0] = probes
        if look_again is not None:
            self._probe_at = now + min(POLL_SECONDS, max(HELD_ROW_SECONDS, look_again))

    def _hand_over(self) -> None:
        if not self._waiting:
            return
        try:
            ready, back = dispatch.recheck(self._rt, self._waiting)
        except Unavailable:
            return  # nothing may be called on an old look at suppressions; looked at again next turn
        self._waiting = []
        self._results.add(back)
        for claim in ready:
            outgoing = dispatch.compose(self._rt, claim)
            if isinstance(outgoing, OutgoingEmail):
                self._callers.call(claim, outgoing)
            else:
                self._results.add([Ended(row=claim.row, result=outgoing)])

    def _give_back(self) -> None:
        unused, self._waiting = [*self._callers.take_back(), *self._waiting], []
        self._results.add(Ended(row=claim.row, result=Released()) for claim in unused)

    def _sweep_if_nobody_does(self) -> None:
        now = time.monotonic()
        if now < self._sweep_check_at:
            return
        missed = SWEEPS_MISSED * self._rt.settings.sweep_seconds
        self._sweep_check_at = now + min(POLL_SECONDS, missed)
        try:
            left = reconcile.seconds_until_overdue(self._rt, missed)
            if left > 0:
                self._sweep_check_at = now + left
                return
            journal.stage("sweep.by_drain", missed_seconds=missed)
            reconcile.sweep(self._rt)
        except Unavailable as away:
            journal.alarm("sweep_failed", why=str(away))

    def _wait(self) -> None:
        now = time.monotonic()
        until = now + POLL_SECONDS
        due = self._results.seconds_until_due()
        if due is not None:
            until = min(until, now + due)
        if self._stop_at is not None:
            idle = due is None and not self._callers.out
            until = now if idle else min(until, self._stop_at)
        else:
            if self._room() > 0:
                until = min(until, now if self._woken else self._poll_at, self._sweep_check_at)
            until = min(until, self._probe_at)
            if self._waiting:
                until = min(until, now + BUSY_ROW_SECONDS)
        self._sleep(until - now)

    def _sleep(self, seconds: float) -> None:
        if self._line.wait(seconds, self._bell.fileno()):
            self._woken = True
        self._bell.hush()

    def last_words(self) -> None:
        """Log what could not be recorded in time, once: enough to settle each email by hand."""
        self._collect()
        self._results.tell()
        if self._callers.out:
            journal.alarm("calls_abandoned", count=self._callers.out)
