"""One email's history in order of time, from all that is known: row, calls, events, facts, decisions."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mail_service.cli.shapes import duration, moment
from mail_service.domain.states import EmailState
from mail_service.store.views import AttemptView, EmailView, RecipientView

STYLES = {
    "submitted": "green",
    "delivered": "green",
    "accepted": "green",
    "ambiguous": "yellow",
    "unknown": "yellow",
    "delayed": "yellow",
    "retryable": "yellow",
    "held": "yellow",
    "failed": "red",
    "bounced": "red",
    "complained": "red",
    "rejected": "red",
    "permanent": "red",
    "suppressed": "magenta",
    "cancelled": "magenta",
}
"""Colours of states and statuses; what is not named here has none."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that happened. ``source`` says who knows it."""

    at: datetime
    source: str
    what: str
    word: str = ""


def styled(word: str) -> Text:
    """Give a state or status in its colour."""
    return Text(word, style=STYLES.get(word, ""))


def entries(view: EmailView) -> list[Entry]:
    """Give everything that happened to an email, oldest first."""
    return sorted(_entries(view), key=lambda entry: entry.at)


def _entries(view: EmailView) -> Iterator[Entry]:
    row = view.email
    people = f"{len(view.recipients)} recipient{'s' if len(view.recipients) != 1 else ''}"
    yield Entry(row.created_at, "email", f"written: {row.template}, {people}", "pending")
    for attempt in view.attempts:
        yield from _of_attempt(attempt)
    for event in view.events:
        lag = (event.received_at - event.occurred_at).total_seconds()
        yield Entry(
            event.occurred_at, "event", f"{event.kind} (heard {duration(max(lag, 0))} later)"
        )
    for recipient in view.recipients:
        yield from _of_recipient(recipient)
    for decision in view.decisions:
        yield Entry(decision.at, decision.by, f"{decision.decision}: {decision.reason}")
    if row.finished_at is not None:
        because = f" ({row.reason})" if row.reason else ""
        yield Entry(row.finished_at, "email", f"{row.state}{because}", row.state)
    elif row.state is EmailState.PENDING and row.next_attempt_at is not None:
        yield Entry(row.next_attempt_at, "email", "due", "pending")


def _of_attempt(attempt: AttemptView) -> Iterator[Entry]:
    name = f"call {attempt.number}"
    yield Entry(attempt.started_at, name, f"began, tag {attempt.request_tag}", "sending")
    if attempt.finished_at is None:
        return
    yield Entry(attempt.finished_at, name, _outcome(attempt), attempt.state)


def _outcome(attempt: AttemptView) -> str:
    fault = ", ".join(part for part in (attempt.error_class, attempt.error_code) if part)
    known = ", ".join(part for part in (attempt.provider_message_id, attempt.decision) if part)
    if fault and attempt.resolved_by not in (None, "worker"):
        # The call itself ended without an answer; somebody else knew more, at a later time.
        return f"ended: {fault}; {attempt.state} by {attempt.resolved_by} since then: {known}"
    return f"{attempt.state}: {', '.join(part for part in (fault, known) if part)}"


def _of_recipient(recipient: RecipientView) -> Iterator[Entry]:
    who = recipient.address or "(erased)"
    bounce = "/".join(part for part in (recipient.bounce_type, recipient.bounce_subtype) if part)
    facts = (
        (recipient.delayed_at, "delayed", ""),
        (recipient.delivered_at, "delivered", ""),
        (recipient.bounced_at, "bounced", bounce),
        (recipient.complained_at, "complained", recipient.complaint_type or ""),
        (recipient.rejected_at, "rejected", ""),
        (recipient.suppressed_at, "suppressed", ""),
    )
    for at, word, more in facts:
        if at is not None:
            yield Entry(at, who, f"{word} ({more})" if more else word, word)


def rendered(view: EmailView) -> RenderableType:
    """Give an email as people read it: what it is, who gets it, and what happened when."""
    row = view.email
    head = Table.grid(padding=(0, 2))
    head.add_row("email", str(row.id))
    head.add_row("state", styled(row.state) + (f" ({row.reason})" if row.reason else ""))
    if any(attempt.unconfirmed for attempt in view.attempts):
        head.add_row("", Text("unconfirmed: accepted, and no event came", style="yellow"))
    head.add_row("template", row.template)
    head.add_row("key", Text(row.dedup_key))
    if row.account_id is not None:
        head.add_row("account", str(row.account_id))
    people = Table("recipient", "kind", "status", box=None, padding=(0, 2, 0, 0))
    for recipient in view.recipients:
        people.add_row(
            Text(recipient.address or "(erased)"), recipient.kind, styled(recipient.status)
        )
    story = Table("time (UTC)", "after", "from", "what", box=None, padding=(0, 2, 0, 0))
    for entry in entries(view):
        after = (entry.at - row.created_at).total_seconds()
        story.add_row(
            f"{moment(entry.at)}.{entry.at.microsecond // 1000:03}",
            duration(after) if after >= 0 else f"-{duration(-after)}",
            Text(entry.source),
            Text(entry.what, style=STYLES.get(entry.word, "")),
        )
    return Group(head, "", people, "", story)
