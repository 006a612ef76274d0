"""Stopping on SIGTERM and SIGINT, however often they come and whoever else gets them."""

import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType


def last_resort(seconds: float, words: Callable[[], None], *, status: int = 1) -> None:
    """End this process after so long, whatever it hangs on; ``words`` are said before.

    A database that accepts and never answers can hold any thread for ever, and the platform would
    kill the process a moment later, without a word.
    """

    def end() -> None:
        try:
            words()
            sys.stdout.flush()
        finally:
            os._exit(status)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


class StopSignal:
    """A flag that the handlers set and the main thread waits for.

    The platform signals every process of a dyno, possibly twice, so the second signal must mean
    nothing new. A handler may interrupt the main thread anywhere, so it takes no lock: it writes
    one byte to a pipe.
    """

    def __init__(self) -> None:
        self.set = False
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, self._handle)

    def wait(self, seconds: float) -> bool:
        """Sleep until a signal came or time is up; says whether one came."""
        if not self.set:
            select.select([self._reader], [], [], seconds)
        return self.set

    def ignore(self) -> None:
        """Let no signal change the exit status any more; the last thing a process does.

        While the interpreter ends it puts back the default of a signal that has a handler of ours, and
        the platform's second SIGTERM would end a process that has stopped cleanly as if killed.
        """
        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, signal.SIG_IGN)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.set = True
        try:
            os.write(self._writer, b"!")
        except BlockingIOError:
            return  # the flag stands, and the pipe holds bytes enough to wake the waiter
