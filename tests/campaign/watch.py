"""Shows how far a long run is: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

PLAIN_LINE_EVERY = 5.0


class Watch(AbstractContextManager["Watch"]):
    """Says how far it is, of a whole that is counted in whatever suits the run."""

    def __init__(self, console: Console, whole: float) -> None:
        self._console = console
        self._said_at = 0.0
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=console
        )
        self._task = self._bar.add_task("starting", total=whole)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._console.is_terminal:
            self._bar.stop()

    def show(self, line: str, done: float) -> None:
        """Tell where it stands."""
        if self._console.is_terminal:
            self._bar.update(self._task, completed=done, description=line)
        elif time.monotonic() - self._said_at > PLAIN_LINE_EVERY:
            self._said_at = time.monotonic()
            self._console.print(line, highlight=False)
