"""What the commands share: the database that the environment names, and the way answers are printed.

Data goes to stdout and everything else to stderr, so that output can be piped.
"""

import json
import os
import pwd
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Annotated

import psycopg
import structlog
import typer
from rich.console import Console

from mail_service import wiring
from mail_service.errors import Unavailable
from mail_service.runtime import Runtime
from mail_service.settings import Process, Settings
from mail_service.store import schema
from mail_service.store.database import Tx
from mail_service.store.pool import Database

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Limit = Annotated[int, typer.Option(min=1, max=500, help="How many to show at most.")]
After = Annotated[str | None, typer.Option(help="Go on where an earlier list ended (its `next`).")]

_PIPE_WIDTH = 4000


def quiet_logs() -> None:
    """Keep stdout for data: of the log of a command, only warnings are shown, on stderr."""
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger("warning"),
        # Looked up at each line, so that nothing holds on to a stream that was replaced.
        logger_factory=lambda *_: structlog.PrintLogger(sys.stderr),
    )


def actor() -> str:
    """Give the name under which this person's decisions are recorded."""
    try:
        return f"cli:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"cli:uid-{os.getuid()}"


@contextmanager
def database() -> Generator[Database]:
    """Open the database that DATABASE_URL names. Raises Unavailable with what to do next."""
    settings = Settings.from_env(os.environ, Process.COMMAND)
    with _opened(settings) as db:
        yield db


@contextmanager
def runtime() -> Generator[Runtime]:
    """Open the database and build what the workflows need; ADDRESS_KEY is required as well."""
    settings = Settings.from_env(os.environ, Process.COMMAND)
    _ = settings.address_key_bytes  # before anything is connected
    with _opened(settings) as db:
        yield wiring.runtime(settings, Process.COMMAND, db)


@contextmanager
def _opened(settings: Settings) -> Generator[Database]:
    _look(settings.database_url.get_secret_value())
    db = wiring.database(settings, Process.COMMAND)
    db.open()
    try:
        yield db
    finally:
        db.close()


def _look(url: str) -> None:
    """Connect once without the pool, which hides why it can't connect until its patience ends."""
    try:
        with psycopg.connect(url, connect_timeout=5, application_name="mail-service") as connection:
            version = schema.version(Tx(connection))
    except psycopg.OperationalError as fault:
        raise Unavailable(
            f"The database can't be reached ({reason_of(fault)}): check DATABASE_URL, "
            "and that PostgreSQL is running."
        ) from fault
    except psycopg.ProgrammingError as fault:
        # A URI that libpq can't read; its text may quote the password.
        raise Unavailable(
            "DATABASE_URL is no URI that libpq reads: expected postgresql://user@host/database."
        ) from fault
    if version is None or version < schema.newest():
        state = "is empty" if version is None else f"has schema {version}"
        raise Unavailable(
            f"The database {state}, and this program needs {schema.newest()}: "
            "run mail-service migrate."
        )


def reason_of(fault: psycopg.OperationalError) -> str:
    """Say in a word or two why a connection failed, without libpq's text, which may hold a name."""
    text = str(fault).lower()
    known = {
        "refused": "nothing listens there",
        "no such file": "there is no such socket",
        "timeout": "no answer in time",
        "password authentication": "the password is wrong",
        "does not exist": "no such database or user",
        "translate host": "the host's name is not known",
        "too many": "it has no connection left",
        "starting up": "it is starting up",
    }
    return next((words for sign, words in known.items() if sign in text), type(fault).__name__)


def console() -> Console:
    """Give a console on stdout; in a pipe its lines are long enough that nothing is cut or wrapped."""
    shown = Console(highlight=False)
    if shown.is_terminal:
        return shown
    return Console(highlight=False, width=_PIPE_WIDTH)


def print_json(value: object) -> None:
    """Print a value as JSON, readable and stable."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_next(cursor: str | None) -> None:
    """Tell, on stderr, how to see the rest of a list."""
    if cursor is not None:
        typer.echo(f"There are more: add --after {cursor}", err=True)
