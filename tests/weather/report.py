"""Shows what came of the weather."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from tests.campaign.auditor import Verdict
from tests.weather import auditor
from tests.weather.evidence import Evidence


def table(title: str, seen: Sequence[Evidence], verdicts: Sequence[Sequence[Verdict]]) -> Table:
    """One row for each weather."""
    shown = Table(title=title)
    for column in (
        "weather",
        "emails",
        "failed",
        "ambiguous",
        "in flight",
        "probes",
        "hold, seconds",
        "noticed after",
        "all out after",
        "attempts used up",
        "alarms per hold",
        "verdict",
    ):
        shown.add_column(column, justify="left" if column in {"weather", "verdict"} else "right")
    for found, judged in zip(seen, verdicts, strict=True):
        broken = [verdict.rule for verdict in judged if verdict.violations]
        shown.add_row(*_figures(found), "ok" if not broken else f"[red]{'; '.join(broken)}[/red]")
    return shown


def _figures(found: Evidence) -> list[str]:
    holds = found.holds
    last = auditor.last_out(found)
    alarms = found.alarms.count("sending_held")
    return [
        found.weather.name,
        str(len(found.emails)),
        str(sum(row["state"] == "failed" for row in found.emails)),
        str(len(auditor.in_doubt(found))),
        ", ".join(str(auditor.in_flight(found, hold)) for hold in holds) or "-",
        str(sum(hold["probes"] for hold in holds)),
        ", ".join(
            f"{hold['scope']} {(hold['cleared_at'] - hold['opened_at']).total_seconds():.1f}"
            if hold["cleared_at"]
            else f"{hold['scope']} open"
            for hold in holds
        )
        or "none",
        ", ".join(
            f"{(hold['cleared_at'] - found.ended).total_seconds():.1f}"
            for hold in holds
            if hold["cleared_at"]
        )
        or "-",
        f"{(last - found.ended).total_seconds():.1f}" if last else "-",
        str(sum(row["refusals"] for row in found.emails)),
        f"{alarms / len(holds):g}" if holds else f"{alarms} of 0",
    ]
