"""The actor ``sync_suppressions``: its body only wakes the keeper of SES's suppression list.

The list takes one call a second, so a sync lasts seconds to hours. It runs on a thread of its own, so
that neither the sweep nor any hint waits for it, and borrows a database connection only between calls.
"""

# dramatiq, dramatiq-pg and APScheduler are typed in part or not at all; they stay inside actors/.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

import threading

import dramatiq

from mail_service.errors import Unavailable
from mail_service.runtime import Runtime
from mail_service.store.suppression_syncs import Sync
from mail_service.workflows import journal, suppression_changes, suppression_sync

ACTOR = "sync_suppressions"
BETWEEN_PAGES = 20
LOOKS_EVERY_SWEEPS = 12
BACK_OFF_SECONDS, BACK_OFF_CAP_SECONDS = 60.0, 3600.0


class _Stopped(Exception):
    """The worker ends: no further call."""


class Keeper:
    """Tells SES's list what was decided here when the sweep finds it, and syncs with it when that is due.

    :meth:`wake` and :meth:`stop` may be called from any thread.
    """

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt
        self._woken = threading.Event()
        self._stopping = threading.Event()
        self._back_off = 0.0
        self._hears = True  # not while it looks: what that leaves is found by the next sweep
        self._thread = threading.Thread(target=self._run, name="suppressions", daemon=True)

    def start(self) -> None:
        """Begin, on a thread of its own."""
        self._thread.start()

    def wake(self) -> None:
        """Look now, also where SES's list failed a moment ago."""
        self._woken.set()

    def hear(self) -> bool:
        """Hear that there is something to tell: look now, unless SES's list failed a moment ago.

        Says whether it looks.
        """
        if not self._hears:
            return False
        self._woken.set()
        return True

    def stop(self, seconds: float) -> None:
        """Make no further call, and wait so long for the one under way.

        What is cut off is taken up again by another worker: it stands in the database.
        """
        self._stopping.set()
        self._woken.set()
        self._thread.join(seconds)

    def _run(self) -> None:
        # After the others have begun: what waits here waits for no one's mail.
        self._woken.wait(self._rt.settings.sweep_seconds)
        while not self._stopping.is_set():
            self._hears = False
            self._woken.clear()
            try:
                well = self._look()
            except _Stopped:
                return
            except Unavailable as away:
                journal.alarm("suppression_list_not_told", why=str(away))
                well = False
            except Exception as error:
                journal.alarm("suppression_keeper_failed", exc_info=error)
                well = False
            longer = min(max(self._back_off * 2, BACK_OFF_SECONDS), BACK_OFF_CAP_SECONDS)
            self._back_off = 0.0 if well else longer
            self._hears = well
            if not self._stopping.is_set():
                # The sweep looks for what is to be told; these looks are for where none is done.
                self._woken.wait(
                    self._back_off or LOOKS_EVERY_SWEEPS * self._rt.settings.sweep_seconds
                )

    def _look(self) -> bool:
        told = suppression_changes.carry_out(self._rt, pause=self._pause)
        if told is not None:
            return False
        synced = suppression_sync.sync_if_due(
            self._rt, by="worker", pause=self._pause, tell=self._between_pages
        )
        return synced is None or synced.error is None

    def _between_pages(self, _: Sync) -> None:
        """A release need not wait for the end of a long list."""
        suppression_changes.carry_out(self._rt, pause=self._pause, at_most=BETWEEN_PAGES)

    def _pause(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise _Stopped


def declare(broker: dramatiq.Broker, keeper: Keeper, queue: str) -> None:
    """Declare the actor on this broker."""

    def sync_suppressions() -> None:
        keeper.wake()

    dramatiq.actor(sync_suppressions, actor_name=ACTOR, broker=broker, queue_name=queue)
