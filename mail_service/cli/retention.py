"""``mail-service retention``: delete now what is past its days."""

import dataclasses

import typer

from mail_service.cli import session
from mail_service.cli.session import AsJson
from mail_service.workflows import retain

app = typer.Typer(help="Retention: what is kept how long.", no_args_is_help=True)


@app.callback()
def _retention() -> None:
    """Keep `run` a command of its own, though it is the only one."""


@app.command("run")
def run(as_json: AsJson = False) -> None:
    """Delete what is past its days, as a worker does each hour. Safe to repeat, and to stop."""
    with session.runtime() as rt:
        done = retain.run(rt)
    if as_json:
        session.print_json(dataclasses.asdict(done))
        return
    typer.echo(
        f"deleted: content of {done.contents} emails, {done.addresses} addresses of recipients, "
        f"{done.payloads} texts of events, {done.strangers} events that found no call, "
        f"{done.counters} old counters"
    )
