"""``mail-service stats``: every kind of trouble apart from the others, on one screen."""

from collections.abc import Iterator, Sequence

from rich.table import Table

from mail_service.cli import session, shapes
from mail_service.cli.session import AsJson
from mail_service.cli.shapes import duration
from mail_service.domain.events import EXPECTED_WITHIN_SECONDS
from mail_service.store.event_stats import BOUNCE_REVIEW, COMPLAINT_REVIEW
from mail_service.store.stats import Counted
from mail_service.store.suppression_syncs import Drift
from mail_service.workflows import observe
from mail_service.workflows.observe import Figures


def stats(as_json: AsJson = False) -> None:
    """Show the figures: what waits, what is in doubt, what failed, and whether anything stands still."""
    with session.runtime() as rt:
        figures = observe.figures(rt)
    if as_json:
        session.print_json(shapes.plain(figures))
        return
    table = Table.grid(padding=(0, 3))
    for name, value in _lines(figures):
        table.add_row(name, value)
    session.console().print(table)


def _lines(figures: Figures) -> Iterator[tuple[str, str]]:
    queue, events, delays = figures.queue, figures.events, figures.delays_last_hour
    yield "pending", f"{queue.pending}, {queue.pending_due} due{_age(queue.oldest_due_seconds)}"
    yield "sending", str(queue.sending)
    yield "expired leases", str(queue.leases_expired)
    yield "ambiguous", f"{queue.ambiguous}{_age(queue.oldest_ambiguous_seconds)}"
    yield "holds", _family(figures.holds)
    yield "failed", _family(figures.failed)
    yield "suppressed", _family(figures.suppressed)
    yield "cancelled", _family(figures.cancelled)
    yield "unmatched events", f"{events.unmatched}{_age(events.oldest_unmatched_seconds)}"
    unconfirmed = f"{events.unconfirmed}{_age(events.oldest_unconfirmed_seconds)}"
    yield "accepted without any event", unconfirmed
    if events.unconfirmed:
        ages = events.unconfirmed_by_age.items()
        yield "  by age", ", ".join(f"{count} {age}" for age, count in ages if count)
    judged = figures.reputation
    yield "bounced for good", _rate(judged.bounce_rate, judged.recipients, BOUNCE_REVIEW)
    yield "complained", _rate(judged.complaint_rate, judged.recipients, COMPLAINT_REVIEW)
    silent = figures.events_silent_seconds
    if silent is not None and silent >= EXPECTED_WITHIN_SECONDS:
        yield "no event of any kind for", f"{duration(silent)}: is the subscription there?"
    yield "events of the last hour", _family(figures.events_last_hour)
    if figures.event_payloads_dropped_last_day:
        yield "event payloads dropped, last day", _family(figures.event_payloads_dropped_last_day)
    yield "subscriptions", _family(figures.subscriptions)
    yield "active suppressions", _family(figures.suppressions)
    yield "suppression lists", _drift(figures.suppression_drift)
    for calls in figures.calls_last_hour:
        times = ""
        if calls.mean_seconds is not None:
            times = f", mean {duration(calls.mean_seconds)}"
            times += f", longest {duration(calls.longest_seconds)}"
        yield f"calls of the last hour, {calls.state}", f"{calls.count}{times}"
    yield "retries, last hour", str(figures.retries_last_hour)
    yield (
        "commit to call, last hour",
        _delay(delays.commit_to_call_median, delays.commit_to_call_longest),
    )
    yield "event lag, last hour", _delay(delays.event_lag_median, delays.event_lag_longest)
    yield "webhook rejections, last day", _family(figures.webhook_rejections_last_day)
    yield (
        "broker queue",
        str(figures.broker_queue) if figures.broker_queue is not None else "no broker schema",
    )
    yield (
        "last sweep",
        f"{duration(figures.last_sweep_seconds)} ago"
        if figures.last_sweep_seconds is not None
        else "never: is a worker running?",
    )


def _drift(drift: Drift) -> str:
    last = drift.last_sync_seconds
    text = (
        f"only here {drift.ours_only}, only at SES {drift.ses_only}, to be put there "
        f"{drift.to_be_put}; learned from SES in a day {drift.learned_last_day}; "
        + (f"synced {duration(last)} ago" if last is not None else "never synced")
    )
    if drift.failing:
        text += f"; {drift.failing} not taken by SES"
    return text + (f" ({drift.last_error})" if drift.last_error else "")


def _age(seconds: float | None) -> str:
    return f", the oldest for {duration(seconds)}" if seconds is not None else ""


def _family(family: Sequence[Counted]) -> str:
    total = sum(one.count for one in family)
    parts = ", ".join(f"{one.label} {one.count}" for one in family)
    return f"{total} ({parts})" if parts else "0"


def _rate(rate: float | None, of: int, review: float) -> str:
    return (
        "none"
        if rate is None
        else f"{100 * rate:.2f} % of {of} (AWS reviews from {100 * review:g} %)"
    )


def _delay(median: float | None, longest: float | None) -> str:
    if median is None:
        return "none"
    return f"median {duration(median)}, longest {duration(longest)}"
