"""``mail-service bench``: how the product compares with the bare call, on this machine, now."""

from typing import Annotated

import typer

from mail_service.cli.session import AsJson


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes: shows that it works, nothing to quote.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Only groups whose name contains this; may be repeated."),
    ] = None,
    repetitions: Annotated[
        int | None, typer.Option(min=1, show_default=False, help="Runs of each case.")
    ] = None,
    emails: Annotated[
        int | None, typer.Option(min=100, show_default=False, help="Backlog of a pipeline run.")
    ] = None,
    signups: Annotated[
        int | None, typer.Option(min=10, show_default=False, help="Sign-ups to an idle system.")
    ] = None,
    requests: Annotated[
        int | None, typer.Option(min=100, show_default=False, help="Requests of a web run.")
    ] = None,
    pending: Annotated[
        int | None, typer.Option(min=0, show_default=False, help="Pending rows of a deep queue.")
    ] = None,
    finished: Annotated[
        int | None, typer.Option(min=0, show_default=False, help="Finished rows beside it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure sending, delay, intake, webhook, claims at depth and rest, against the bare thing.

    It starts an embedded PostgreSQL, or uses the empty database that DATABASE_URL names. The provider
    is a local process, so only ratios and CPU per email mean anything elsewhere. Exit 1 when something
    was lost or doubled; a goal that is missed changes no exit status.
    """
    # Here, so that no other command has to load what only this one needs.
    from mail_service.cli import bench_report, bench_run

    given = {
        "repetitions": repetitions,
        "emails": emails,
        "signups": signups,
        "requests": requests,
        "pending": pending,
        "finished": finished,
    }
    sizes = bench_run.sized(quick=quick, given=given)
    status, _ = bench_run.measure(
        bench_run.profile(), bench_report.GOALS, sizes, only=only or [], as_json=as_json
    )
    raise typer.Exit(status)
