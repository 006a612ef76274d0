"""``mail-service``: every command on one screen. Exit 0: fine, 1: found a problem, 2: wrong usage."""

import sys

import typer

from mail_service.cli import keys, processes
from mail_service.cli.sandbox import sandbox
from mail_service.errors import MailServiceError

app = typer.Typer(
    name="mail-service",
    help="Transactional email through Amazon SES that knows what became of each mail.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("migrate")(processes.migrate)
app.command("worker")(processes.worker)
app.command("clock")(processes.clock)
app.command("sandbox")(sandbox)
app.add_typer(keys.app, name="keys")


def main() -> None:
    """Run the command line; errors that people meet end in one sentence, not in a traceback."""
    try:
        app()
    except MailServiceError as problem:
        typer.echo(str(problem), err=True)
        sys.exit(1)
