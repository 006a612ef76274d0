"""``mail-service``: every command on one screen. Exit 0: fine, 1: found a problem, 2: wrong usage."""

import sys

import typer

from mail_service.cli import (
    emails,
    events,
    keys,
    processes,
    retention,
    session,
    stats,
    suppressions,
    templates,
)
from mail_service.cli.bench import bench
from mail_service.cli.demo import demo
from mail_service.cli.erase import erase
from mail_service.cli.sandbox import sandbox
from mail_service.errors import InvalidFields, MailServiceError

app = typer.Typer(
    name="mail-service",
    help="Transactional email through Amazon SES that knows what became of each mail.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    callback=session.quiet_logs,
)
app.command("demo")(demo)
app.command("sandbox")(sandbox)
app.command("migrate")(processes.migrate)
app.command("worker")(processes.worker)
app.command("clock")(processes.clock)
app.add_typer(keys.app, name="keys")
app.add_typer(emails.app, name="emails")
app.add_typer(suppressions.app, name="suppressions")
app.add_typer(events.app, name="events")
app.add_typer(retention.app, name="retention")
app.add_typer(templates.app, name="templates")
app.command("erase")(erase)
app.command("stats")(stats.stats)
app.command("bench")(bench)


def main() -> None:
    """Run the command line; errors that people meet end in one sentence, not in a traceback."""
    try:
        app()
    except InvalidFields as wrong:
        typer.echo(str(wrong), err=True)
        sys.exit(2)
    except MailServiceError as problem:
        typer.echo(str(problem), err=True)
        sys.exit(1)
