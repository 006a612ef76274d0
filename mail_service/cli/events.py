"""``mail-service events``: what SES told us, and what was understood of it."""

from typing import Annotated

import typer
from rich.table import Table

from mail_service.cli import session, shapes
from mail_service.cli.session import After, AsJson, Limit
from mail_service.domain.events import EventStatus
from mail_service.workflows import observe

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
