"""Runs things now or later on a bounded set of threads."""

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import structlog

Task = Callable[[], None]
_log = structlog.get_logger(__name__)


class Schedule:
    """A timer in front of a thread pool; what is not yet due when it closes is dropped."""

    def __init__(self, threads: int = 32) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="sandbox-deliver")
        self._due: list[tuple[float, int, Task]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._closed = False
        self._timer = threading.Thread(target=self._tick, name="sandbox-timer", daemon=True)
        self._timer.start()

    def run(self, task: Task, after_seconds: float = 0) -> None:
        """Run `task` on a pool thread, not before `after_seconds` have passed."""
        with self._changed:
            if self._closed:
                return
            if after_seconds <= 0:
                self._pool.submit(_guarded, task)
                return
            due = time.monotonic() + after_seconds
            heapq.heappush(self._due, (due, next(self._order), task))
            self._changed.notify()

    def _tick(self) -> None:
        with self._changed:
            while not self._closed:
                if not self._due:
                    self._changed.wait()
                elif (left := self._due[0][0] - time.monotonic()) > 0:
                    self._changed.wait(left)
                else:
                    self._pool.submit(_guarded, heapq.heappop(self._due)[2])

    def close(self) -> None:
        """Drop what waits and wait for what runs."""
        with self._changed:
            self._closed = True
            self._due.clear()
            self._changed.notify()
        self._timer.join()
        self._pool.shutdown(wait=True, cancel_futures=True)


def _guarded(task: Task) -> None:
    try:
        task()
    except Exception:
        _log.exception("sandbox_delivery_failed")
