"""``mail-service emails``: what became of each mail."""

import uuid
from datetime import UTC, datetime
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from mail_service.cli import session, shapes, timeline
from mail_service.cli.session import After, AsJson, Limit
from mail_service.domain.deciding import Decision
from mail_service.domain.states import EmailState
from mail_service.errors import InvalidFields
from mail_service.store.narrowing import Filter
from mail_service.store.views import EmailView
from mail_service.workflows import decide, observe

app = typer.Typer(help="Emails: what became of each, and why.", no_args_is_help=True)


@app.command("list")
def list_(
    state: Annotated[EmailState | None, typer.Option(help="Only those in this state.")] = None,
    template: Annotated[str | None, typer.Option(help="Only this template, by full name.")] = None,
    recipient: Annotated[str | None, typer.Option(help="Only those to this address.")] = None,
    message_id: Annotated[
        str | None, typer.Option(help="Only the one SES knows by this id.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Written at or after: 2026-05-01 or 2026-05-01T12:00:00Z.")
    ] = None,
    before: Annotated[str | None, typer.Option(help="Written before; same form.")] = None,
    limit: Limit = 50,
    after: After = None,
    as_json: AsJson = False,
) -> None:
    """List emails, newest first."""
    with session.runtime() as rt:
        wanted = Filter(
            state=state,
            template=template,
            address_hash=observe.address_hash(rt, "recipient", recipient) if recipient else None,
            provider_message_id=message_id,
            created_after=_time("since", since),
            created_before=_time("before", before),
        )
        page = observe.list_emails(rt, wanted, after=after, limit=limit)
    if as_json:
        session.print_json(
            {"items": [shapes.email(view) for view in page.items], "next": page.next}
        )
        return
    table = Table("written (UTC)", "id", "template", "state", "reason", "recipients", "calls")
    table.columns[1].no_wrap = True
    for view in page.items:
        row = view.email
        people = [
            Text(f"{one.address or '(erased)'} ").append(timeline.styled(one.status))
            for one in view.recipients
        ]
        table.add_row(
            shapes.moment(row.created_at),
            str(row.id),
            row.template,
            timeline.styled(row.state),
            row.reason or "",
            Text("\n").join(people),
            str(len(view.attempts)),
        )
    session.console().print(table)
    session.print_next(page.next)


@app.command("show")
def show(
    email_id: Annotated[uuid.UUID, typer.Argument(help="Its id, as emails list shows it.")],
    as_json: AsJson = False,
) -> None:
    """Show one email with everything that happened to it, in order of time."""
    with session.runtime() as rt:
        view = observe.email(rt, email_id)
    _print(view, as_json)


@app.command("resolve")
def resolve(
    email_id: Annotated[uuid.UUID, typer.Argument(help="An ambiguous email.")],
    decision: Annotated[Decision, typer.Option(help="What is true, or to be done.")],
    reason: Annotated[str, typer.Option(help="Why; it is kept with the decision.")],
    attempt: Annotated[
        uuid.UUID, typer.Option(help="The newest attempt, as emails show names it.")
    ],
    as_json: AsJson = False,
) -> None:
    """Take an email out of doubt: accepted, resend (a new epoch) or abandon."""
    with session.runtime() as rt:
        view = decide.resolve(
            rt, email_id, decision=decision, reason=reason, attempt_id=attempt, by=session.actor()
        )
    _print(view, as_json)


@app.command("requeue")
def requeue(
    email_id: Annotated[uuid.UUID, typer.Argument(help="A failed or suppressed email.")],
    reason: Annotated[str, typer.Option(help="Why; it is kept with the decision.")],
    not_after: Annotated[
        str | None, typer.Option(help="A new deadline, if the old passed.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Send an email again that failed or was suppressed, in a new epoch."""
    with session.runtime() as rt:
        view = decide.requeue(
            rt,
            email_id,
            reason=reason,
            not_after=_time("not-after", not_after),
            by=session.actor(),
        )
    _print(view, as_json)


def _print(view: EmailView, as_json: bool) -> None:
    if as_json:
        session.print_json(shapes.email(view))
    else:
        session.console().print(timeline.rendered(view))


def _time(name: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError as odd:
        raise InvalidFields(
            {name: "expected a date or a time such as 2026-05-01T12:00:00Z"}
        ) from odd
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)
