"""What the demo shows: steps while it starts, then a table that lives, or a line per change."""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mail_service.cli.demo_cast import Json, Role
from mail_service.cli.timeline import styled


class Screen:
    """Writes to the terminal; ``plain`` where there is none, or when logs run through it."""

    def __init__(self, *, verbose: bool) -> None:
        self.console = Console(highlight=False)
        self._plain = verbose or not self.console.is_terminal
        if not self.console.is_terminal:
            self.console = Console(highlight=False, width=240)
        self._began = time.monotonic()
        self._live: Live | None = None
        self._seen: dict[str, tuple[str, ...]] = {}
        self._painted: object = None
        self._awaiting = ""

    def say(self, text: str = "") -> None:
        """Print a line; above the table while that is there."""
        self.console.print(text, markup=False)

    @contextmanager
    def step(self, doing: str) -> Generator[None]:
        """Show what is awaited, and then how long it took."""
        began = time.monotonic()
        if self._plain:
            self.say(f"... {doing}")
            yield
        else:
            with self.console.status(f"{doing} ..."):
                yield
        if not self._plain:
            self.say(f"ok  {doing} ({time.monotonic() - began:.1f} s)")

    @contextmanager
    def watching(self) -> Generator[None]:
        """Keep a table on the terminal, which ``show`` renews."""
        self._began = time.monotonic()
        if self._plain:
            yield
            return
        with Live(console=self.console, auto_refresh=False) as self._live:
            yield
        self._live = None

    def show(self, roles: Sequence[Role], others: Sequence[Json], awaiting: str) -> None:
        """Show how the emails stand, and what is awaited."""
        rows = [(role.name, role.email) for role in roles if role.email]
        rows += [("yours", email) for email in others]
        if self._live is not None:
            # Painted only when something changed, or a terminal that is slow would flicker.
            if (painted := (rows, awaiting)) != self._painted:
                self._painted = painted
                table = self._table(rows)
                table.caption = awaiting
                self._live.update(table, refresh=True)
            return
        if awaiting != self._awaiting:
            self._awaiting = awaiting
            self._line(f"... {awaiting}")
        for name, email in rows:
            words = _words(email)
            if self._seen.get(email["id"]) != words:
                self._seen[email["id"]] = words
                address, state, status, calls, reason = words
                said = f"{name:10} {state:10} recipient {status:10} calls {calls} {reason}"
                self._line(f"{said:80} {address}")

    def _line(self, text: str) -> None:
        self.say(f"{time.monotonic() - self._began:5.1f} s  {text}")

    def final(self, roles: Sequence[Role]) -> None:
        """Say that all is as it should be, under the table that a terminal has already."""
        if self._plain:
            self.console.print(self._table([(role.name, role.email) for role in roles]))
        self.say("\nEach account ended where it should:")
        for role in roles:
            self.say(f"  {role.name:10} {role.promise}")

    def _table(self, rows: Sequence[tuple[str, Json]]) -> Table:
        """Give a table of emails."""
        table = Table("account", "address", "email", "recipient", "calls", "reason")
        for name, email in rows:
            address, state, status, calls, reason = _words(email)
            table.add_row(name, Text(address), styled(state), styled(status), calls, reason)
        return table


def _words(email: Json) -> tuple[str, str, str, str, str]:
    recipient = cast("Json", email["recipients"][0])
    attempts = cast("list[Json]", email["attempts"])
    return (
        str(recipient["address"] or "(erased)"),
        str(email["state"]),
        str(recipient["status"]),
        str(len(attempts)),
        ", ".join(dict.fromkeys(_reasons(email, recipient, attempts))),
    )


def _reasons(email: Json, recipient: Json, attempts: list[Json]) -> Iterator[str]:
    if email["reason"]:
        yield str(email["reason"])
    if attempts and attempts[-1]["error_class"]:
        yield str(attempts[-1]["error_class"])
    if recipient["bounce_type"]:
        yield f"{recipient['bounce_type']}/{recipient['bounce_subtype']}"
    if recipient["complaint_type"]:
        yield str(recipient["complaint_type"])
    if attempts and attempts[-1]["resolved_by"] not in (None, "worker"):
        # Usually the worker itself learns from SES's answer what became of the call.
        yield f"settled by {attempts[-1]['resolved_by']}"
