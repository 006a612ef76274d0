"""How far long work is: a bar on a terminal, plain lines elsewhere. On stderr: stdout is for data."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress

_LINES = 10  # at most about so many, however much there is to do


@contextmanager
def shown(what: str) -> Generator[Callable[[int, int], None]]:
    """Give a function that is told how much is done, and of how much as far as is known."""
    console = Console(stderr=True, highlight=False)
    if console.is_terminal:
        with Progress(console=console) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=max(total, done))
        return
    next_line = 1

    def tell(done: int, total: int) -> None:
        nonlocal next_line
        if done >= next_line:
            console.print(f"{what}: {done} of about {max(total, done)}")
            step = max(1, total // _LINES)
            next_line = (done // step + 1) * step

    yield tell
