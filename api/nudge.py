"""The nudge: after a commit, tell the drains that mail is due, without the request waiting for it."""

from collections.abc import Callable
from threading import Condition, Thread

import structlog

APART_SECONDS = 0.05

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("api")


class Nudge:
    """Call it as often as you like: the first call wakes at once, then at most one per 50 ms.

    Its thread starts with the first call, so each process has its own, also after a fork. A wake
    that fails is logged and forgotten: the drains poll, so it costs seconds and no mail.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._changed = Condition()
        self._asked = False
        self._stopping = False
        self._thread: Thread | None = None

    def __call__(self) -> None:
        """Ask for a wake; returns at once."""
        with self._changed:
            first, self._asked = not self._asked, True
            if self._thread is None or not self._thread.is_alive():
                self._thread = Thread(target=self._run, name="nudge", daemon=True)
                self._thread.start()
            elif first:  # woken for every request, the thread would cost more than the nudges
                self._changed.notify()

    def stop(self, seconds: float = 2.0) -> None:
        """End the thread; a wake that was asked for is still sent, if that takes no longer than this."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
            thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._asked or self._stopping)
                if not self._asked:
                    return
                # Before the wake, so that a request which commits during it asks for the next one.
                self._asked = False
            try:
                self._wake()
            except Exception as fault:
                _log.warning("nudge.lost", error=type(fault).__name__)
            with self._changed:
                self._changed.wait_for(lambda: self._stopping, APART_SECONDS)
