"""``mail-service suppressions``: who gets no mail, why, and how that ends."""

import uuid
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from mail_service.cli import session, shapes
from mail_service.cli.session import After, AsJson, Limit
from mail_service.domain.suppression import ReleaseRule, SuppressionReason
from mail_service.errors import InvalidFields, NotFound
from mail_service.runtime import Runtime
from mail_service.workflows import observe, operate

app = typer.Typer(help="Suppressions: addresses that get no mail, and why.", no_args_is_help=True)


@app.command("list")
def list_(
    address: Annotated[str | None, typer.Option(help="Only this mailbox.")] = None,
    reason: Annotated[SuppressionReason | None, typer.Option(help="Only for this reason.")] = None,
    active: Annotated[
        bool | None,
        typer.Option("--active/--released", help="Only those that stand, or that were lifted."),
    ] = None,
    limit: Limit = 50,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """List suppressions, newest first."""
    with session.runtime() as rt:
        page = observe.list_suppressions(
            rt, address=address, reason=reason, active=active, after=after, limit=limit
        )
    if as_json:
        session.print_json({"items": shapes.plain(page.items), "next": page.next})
        return
    table = Table("since (UTC)", "id", "address", "reason", "from", "note", "released (UTC)", "by")
    table.columns[1].no_wrap = True
    for row in page.items:
        table.add_row(
            shapes.moment(row.created_at),
            str(row.id),
            Text(row.address or "(erased)"),
            row.reason,
            row.source,
            Text(row.note or ""),
            shapes.moment(row.released_at),
            f"{row.released_by}, {row.release_rule}" if row.released_at else "",
        )
    session.console().print(table)
    session.print_next(page.next)


@app.command("add")
def add(
    address: Annotated[str, typer.Argument(help="The address that is to get no mail.")],
    note: Annotated[str | None, typer.Option(help="Why, for whoever reads this later.")] = None,
    as_json: AsJson = False,
) -> None:
    """Stop mail to an address. Safe to repeat: what stands already is left as it is."""
    with session.runtime() as rt:
        row, created = operate.suppress(rt, address=address, note=note, by=session.actor())
    if as_json:
        session.print_json({**shapes.plain(row), "created": created})
        return
    state = "is suppressed now" if created else f"was suppressed already ({row.reason})"
    typer.echo(f"{row.address or address} {state}; id {row.id}")


@app.command("release")
def release(
    which: Annotated[str, typer.Argument(metavar="ID|ADDRESS", help="Its id, or the address.")],
    rule: Annotated[ReleaseRule, typer.Option(help="The ground on which it is lifted.")],
    reason: Annotated[str, typer.Option(help="What happened, for whoever reads this later.")],
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Needed for a complaint: consent was renewed.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Lift a suppression by a stated rule; the rule, the reason and your name are kept."""
    with session.runtime() as rt:
        row = operate.release(
            rt,
            _find(rt, which),
            rule=rule,
            reason=reason,
            confirmed=confirm,
            by=session.actor(),
        )
    if as_json:
        session.print_json(shapes.plain(row))
        return
    typer.echo(f"{row.address or which} may get mail again ({row.release_rule})")


def _find(rt: Runtime, which: str) -> uuid.UUID:
    if "@" not in which:
        try:
            return uuid.UUID(which)
        except ValueError as odd:
            raise InvalidFields({"ID|ADDRESS": "expected an id or an address"}) from odd
    found = observe.list_suppressions(
        rt, address=which, reason=None, active=True, after=None, limit=1
    )
    if not found.items:
        raise NotFound(f"{which} is not suppressed")
    return found.items[0].id
