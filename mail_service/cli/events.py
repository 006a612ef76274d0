"""``mail-service events``: what SES told us, and what was understood of it."""

from collections.abc import Mapping
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from mail_service import wiring
from mail_service.cli import progress, session, shapes
from mail_service.cli.session import After, AsJson, Limit
from mail_service.domain.events import EventStatus
from mail_service.errors import SettingsError
from mail_service.workflows import observe
from mail_service.workflows.redrive import Redriven, redrive
from mail_service.workflows.replay import USUAL, Replayed, replay

app = typer.Typer(help="Events: what SES told us, and what it belongs to.", no_args_is_help=True)


@app.command("list")
def list_(
    status: Annotated[
        EventStatus | None, typer.Option(help="Only those understood this far.")
    ] = None,
    limit: Limit = 50,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """List stored events, newest first."""
    with session.runtime() as rt:
        page = observe.list_events(rt, status, after=after, limit=limit)
    if as_json:
        session.print_json({"items": shapes.plain(page.items), "next": page.next})
        return
    table = Table(
        "received (UTC)", "id", "kind", "status", "occurred (UTC)", "SES message id", "attempt"
    )
    for column in table.columns:
        column.no_wrap = True
    for event in page.items:
        table.add_row(
            shapes.moment(event.received_at),
            str(event.id),
            event.kind,
            event.status,
            shapes.moment(event.occurred_at),
            event.provider_message_id or "",
            str(event.attempt_id) if event.attempt_id else "",
        )
    session.console().print(table)
    session.print_next(page.next)


@app.command("replay")
def replay_(
    status: Annotated[
        EventStatus | None,
        typer.Option(help="Only those understood this far; without it: " + ", ".join(USUAL) + "."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Read stored events again with today's reader, and match what can be matched. Safe to repeat.

    Quarantined events are shown and not forced: their tag and MessageId speak of two calls.
    """
    with session.runtime() as rt, progress.shown("events read") as show:

        def tell(so_far: Replayed) -> None:
            show(so_far.read, so_far.total)

        done = replay(rt, USUAL if status is None else (status,), tell=tell)
    if as_json:
        session.print_json(shapes.plain(done))
        return
    typer.echo(f"{done.read} read again{_family(done.became)}")
    if done.quarantined:
        typer.echo(
            f"{done.quarantined} quarantined: look at them with "
            "mail-service events list --status quarantined"
        )


@app.command("redrive")
def redrive_(
    queue_url: Annotated[str, typer.Argument(metavar="SQS_URL", help="The dead-letter queue.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be taken; store and delete nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Take events that SNS could not deliver from the subscription's dead-letter queue.

    Each is verified as at the webhook, and deleted once it is stored. What can't be taken stays in the
    queue, and the exit status is 1. Safe to stop with Ctrl-C, and to repeat.
    """
    with session.runtime() as rt:
        if not rt.settings.sns_topic_arns:
            raise SettingsError(
                {"SNS_TOPIC_ARNS": "is required: whose messages are to be believed"}
            )
        letters = wiring.dead_letters(rt.settings, queue_url)
        so_far = Redriven(taken={}, refused={}, postponed=0, complete=False)
        waiting = letters.waiting()
        with progress.shown("letters looked at") as show:

            def tell(told: Redriven) -> None:
                nonlocal so_far
                so_far = told
                show(told.seen, waiting)

            try:
                so_far = redrive(rt, letters, dry_run=dry_run, tell=tell)
            except KeyboardInterrupt:
                typer.echo("Stopped. Nothing is lost: run it again to go on.", err=True)
                _print(so_far, dry_run=dry_run, as_json=as_json)
                raise typer.Exit(130) from None
    _print(so_far, dry_run=dry_run, as_json=as_json)
    raise typer.Exit(0 if so_far.complete and not so_far.left else 1)


def _print(end: Redriven, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        session.print_json(
            {**shapes.plain(end), "seen": end.seen, "left": end.left, "dry_run": dry_run}
        )
        return
    would = "would be taken" if dry_run else "taken"
    typer.echo(f"{sum(end.taken.values())} {would}{_family(end.taken)}")
    if end.refused:
        typer.echo(f"{sum(end.refused.values())} can't be taken and stay{_family(end.refused)}")
    if end.postponed:
        typer.echo(f"{end.postponed} stay for another time: a fault on our side, see the log")


def _family(counts: Mapping[str, int]) -> str:
    parts = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
    return f": {parts}" if parts else ""


@app.command("subscriptions")
def subscriptions(limit: Limit = 50, as_json: AsJson = False) -> None:
    """List what SNS offered to bring us, and what became of it, newest first."""
    with session.runtime() as rt:
        found = observe.list_subscriptions(rt, limit=limit)
    if as_json:
        session.print_json({"items": shapes.plain(found)})
        return
    table = Table("offered (UTC)", "topic", "state", "since (UTC)", "tries", "last error")
    for column in table.columns:
        column.no_wrap = True
    for row in found:
        table.add_row(
            shapes.moment(row.offered_at),
            Text(row.topic_arn),
            row.state,
            shapes.moment(row.settled_at),
            str(row.tries),
            Text(row.last_error or ""),
        )
    session.console().print(table)
