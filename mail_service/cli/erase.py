"""``mail-service erase``: one person is forgotten."""

import dataclasses
import time
from typing import Annotated

import typer

from mail_service.cli import session, shapes
from mail_service.cli.session import AsJson
from mail_service.workflows import erase as erasing


def erase(
    address: Annotated[str, typer.Argument(help="The address to be forgotten.")],
    as_json: AsJson = False,
) -> None:
    """Forget an address at once: its account, its mail, what events and notes say of it.

    Pending mail is cancelled, a call under way is waited for. Suppressions stand, by the keyed hash. Safe
    to repeat. Exit 1 when a call did not end in time: erase again then.
    """
    with session.runtime() as rt:
        done = erasing.address(rt, address, by=session.actor(), pause=time.sleep)
    if as_json:
        session.print_json(shapes.plain(dataclasses.asdict(done)))
    else:
        typer.echo(
            f"erased: {done.accounts} accounts, {done.emails} emails ({done.cancelled} of them "
            f"cancelled), {done.suppressions} suppressions without address now, "
            f"{done.payloads} texts of events, {done.answers} stored answers"
        )
        for email_id in done.ambiguous:
            typer.echo(f"ambiguous, to be accepted or abandoned: {email_id}")
    if done.in_call:
        typer.echo(f"{len(done.in_call)} calls have not ended: erase again later", err=True)
        raise typer.Exit(1)
