"""The processes of the Procfile that are commands: release, worker, clock."""

import os

import psycopg
import typer

from mail_service import wiring
from mail_service.errors import Unavailable
from mail_service.settings import Process, Settings

# Each loads its own share when it is called: no other command has to wait for alembic and dramatiq.


def migrate() -> None:
    """Bring the database to the newest schema, and create the broker's. Safe to run at any time."""
    from actors import broker as brokers
    from mail_service.store import migrating

    settings = Settings.from_env(os.environ, Process.RELEASE)
    wiring.refuse_to_forget(settings)
    url = settings.database_url.get_secret_value()
    try:
        before, after = migrating.migrate(url)
        created = brokers.install_schema(url)
    except psycopg.OperationalError as fault:
        raise Unavailable(
            f"the database can't be reached, or a lock was not given in time: {type(fault).__name__}.\n"
            "Check DATABASE_URL; running mail-service migrate again is safe."
        ) from fault
    typer.echo(f"schema {after}" + ("" if before == after else f" (was {before or 'empty'})"))
    typer.echo("broker schema created" if created else "broker schema there")


def worker() -> None:
    """Send mail: claims, calls SES, records. Stops cleanly on SIGTERM within 25 s."""
    from actors import worker as worker_process

    raise typer.Exit(worker_process.main())


def clock() -> None:
    """Enqueue the periodic sweep. Two clocks are harmless; none only slows recovery."""
    from actors import clock as clock_process

    raise typer.Exit(clock_process.main())
