"""``mail-service suppressions``: who gets no mail, why, and how that ends."""

import time
import uuid
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from mail_service.cli import progress, session, shapes, suppression_files
from mail_service.cli.session import After, AsJson, Limit
from mail_service.domain.suppression import ReleaseRule, SuppressionReason
from mail_service.errors import Conflict, InvalidFields, NotFound
from mail_service.runtime import Runtime
from mail_service.store.suppression_syncs import Drift, Sync
from mail_service.workflows import observe, operate, suppression_changes, suppression_sync
from mail_service.workflows.suppression_changes import FAILURES_IN_A_ROW, FAILURES_WHEN_ASKED

app = typer.Typer(help="Suppressions: addresses that get no mail, and why.", no_args_is_help=True)
app.command("import")(suppression_files.import_)
app.command("export")(suppression_files.export)

PATIENCE_SECONDS = 60
"""How long to wait for a sync that a worker has under way."""


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
    if created:
        typer.echo("A worker puts it on SES's list too.")


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
    typer.echo("A worker deletes it from SES's list too; `suppressions sync` does it now.")


@app.command("sync")
def sync(
    full: Annotated[
        bool, typer.Option("--full/--recent", help="All of SES's list, or what changed on it.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Make our list and SES's agree: take in what SES lists, tell it what was decided here.

    One call a second, which is what SES takes. Safe to stop and to repeat. Exit 1 when it did not come to
    its end, or SES did not take a change.
    """
    with session.runtime() as rt:
        running = _begin(rt, full)
        with progress.shown("entries") as tell:
            done = suppression_sync.read(
                rt, running, pause=time.sleep, tell=lambda so_far: tell(so_far.listed, 0)
            )
        not_told = _tell_ses(rt, patient=done.error is None)
        problem = done.error or not_told
        drift = suppression_sync.drift(rt)
        if problem is None and drift.failing:
            # A worker is at it now.
            problem = f"{drift.failing} wait to be tried again after: {drift.last_error}"
    if as_json:
        shown = {"sync": shapes.plain(done), "drift": shapes.plain(drift), "problem": problem}
        session.print_json(shown)
    else:
        _print_sync(done, drift)
        if problem is not None:
            typer.echo(f"SES's list could not be brought in line: {problem}", err=True)
    if problem is not None:
        raise typer.Exit(1)


def _begin(rt: Runtime, full: bool) -> Sync:
    for _ in range(PATIENCE_SECONDS):
        try:
            return suppression_sync.begin(rt, full=full, by=session.actor())
        except Conflict:
            time.sleep(1)
    return suppression_sync.begin(rt, full=full, by=session.actor())


def _tell_ses(rt: Runtime, *, patient: bool) -> str | None:
    """Tell SES all that it is still to be told, also what failed a moment ago: a person asked."""
    failures = FAILURES_WHEN_ASKED if patient else FAILURES_IN_A_ROW
    suppression_changes.hurry(rt)
    total = suppression_changes.waiting(rt)
    done = 0

    def one_more() -> None:
        nonlocal done
        done += 1
        tell(done, total)

    with progress.shown("changes told to SES") as tell:
        return suppression_changes.carry_out(
            rt,
            pause=time.sleep,
            give_up_after=failures,
            tell=one_more,
        )


def _print_sync(done: Sync, drift: Drift) -> None:
    scope = "all of SES's list" if done.scope == "full" else f"changes since {done.since}"
    typer.echo(f"read {scope}: {done.listed} entries on {done.pages} pages")
    typer.echo(
        f"from SES: {done.added} new to us, {done.strengthened} made stronger, "
        f"{done.released} released here since, {done.unreadable} unreadable"
    )
    typer.echo(
        f"now: {drift.ours_only} only here, {drift.ses_only} only at SES, "
        f"{drift.to_be_put} to be put there"
    )


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
