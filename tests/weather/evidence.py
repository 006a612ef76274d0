"""What is left of one weather: the sandbox's own logs, the tables, and what the workers said."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.campaign.auditor import Row
from tests.weather.stage import WORKERS, Stage
from tests.weather.weathers import NEVER_PROVED, Weather


@dataclass(frozen=True)
class Mark:
    """Where everything stood before a weather."""

    at: datetime
    calls: int
    deliveries: int


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Everything about the emails of one weather. Times are the database's."""

    weather: Weather
    begun: datetime
    ended: datetime
    emails: list[Row]
    """id, sender, state, refusals, created_at, submitted_at, doubted_at"""
    attempts: list[Row]
    """tag, email_id, sender, number, epoch, state, error_class, started_at, finished_at"""
    holds: list[Row]
    """scope, subject, probes, opened_at, told_at (after its commit), cleared_at, cleared_by"""
    decisions: list[Row]
    """email_id, by"""
    calls: list[Row]
    """Rows of the sandbox's log."""
    deliveries: list[Row]
    """Rows of the sandbox's log of event deliveries."""
    desk: set[str]
    """Ids of the emails that the operator's list shows as ambiguous."""
    alarms: list[str]
    """Alarms of the workers, by name."""
    probes: set[str]
    """Tags of the calls that were made as probes."""
    lost: set[str]
    """Tags of what the killed workers had leased."""
    unfinished: str = ""
    """What was waited for in vain."""
    lease: float = 60
    sweep: float = 5
    call: float = 13
    slots: int = 32
    probes_apart: float = 60


_EMAILS = """
    SELECT o.id::text, o.sender_address AS sender, o.state::text, o.refusals, o.created_at,
           (SELECT min(t.at) FROM mail_service.email_transitions t
            WHERE t.email_id = o.id AND t.to_state = 'submitted') AS submitted_at,
           (SELECT min(t.at) FROM mail_service.email_transitions t
            WHERE t.email_id = o.id AND t.to_state = 'ambiguous') AS doubted_at
    FROM mail_service.email_outbox o WHERE o.dedup_key LIKE %s || '%%'
"""
_ATTEMPTS = """
    SELECT a.request_tag AS tag, a.email_id::text, o.sender_address AS sender, a.number, a.epoch,
           a.state::text, a.error_class, a.started_at, a.finished_at
    FROM mail_service.send_attempts a JOIN mail_service.email_outbox o ON o.id = a.email_id
    WHERE o.dedup_key LIKE %s || '%%' ORDER BY a.email_id, a.number
"""
_HOLDS = """
    SELECT scope::text, subject, probes, opened_at, cleared_at, cleared_by
    FROM mail_service.holds WHERE opened_at >= %s ORDER BY opened_at
"""
_DECISIONS = """
    SELECT d.email_id::text, d.decided_by AS by FROM mail_service.email_decisions d
    JOIN mail_service.email_outbox o ON o.id = d.email_id WHERE o.dedup_key LIKE %s || '%%'
"""


def mark(stage: Stage) -> Mark:
    """Note where everything stands."""
    calls, deliveries = stage.sandbox.log(), stage.sandbox.deliveries()
    return Mark(
        at=stage.now(),
        calls=calls[-1]["seq"] if calls else 0,
        deliveries=deliveries[-1]["seq"] if deliveries else 0,
    )


def key(weather: Weather) -> str:
    """Give what the dedup key of each of its emails begins with."""
    return weather.name.replace(" ", "-") + ":"


def collect(
    stage: Stage,
    weather: Weather,
    before: Mark,
    *,
    begun: datetime,
    ended: datetime,
    unfinished: str,
    probes_apart: float,
) -> Evidence:
    """Read everything about one weather."""
    attempts = stage.sql(_ATTEMPTS, key(weather))
    living = {
        attempt_id
        for worker in stage.workers
        for record in worker.records("emails.claimed")
        for attempt_id in record["attempt_ids"].split()
    }
    alarms = stage.said("alarm", before.at)
    told = [row["timestamp"] for row in alarms if row["alarm"] == "sending_held"]
    holds = stage.sql(_HOLDS, before.at)
    for hold, at in zip(holds, sorted(told), strict=False):
        hold["told_at"] = datetime.fromisoformat(at)
    return Evidence(
        weather=weather,
        begun=begun,
        ended=ended,
        emails=stage.sql(_EMAILS, key(weather)),
        attempts=attempts,
        holds=holds,
        decisions=stage.sql(_DECISIONS, key(weather)),
        calls=stage.sandbox.log(before.calls),
        deliveries=stage.sandbox.deliveries(before.deliveries),
        desk=_desk(stage),
        alarms=[record["alarm"] for record in alarms],
        probes={record["attempt_id"] for record in stage.said("hold.probed", before.at)},
        lost={
            row["tag"]
            for row in attempts
            if row["error_class"] == "lease_expired" and row["tag"] not in living
        },
        unfinished=unfinished,
        lease=stage.setting("LEASE_SECONDS"),
        sweep=stage.setting("SWEEP_SECONDS"),
        call=stage.setting("SES_CONNECT_TIMEOUT") + stage.setting("SES_READ_TIMEOUT"),
        slots=WORKERS * int(stage.setting("SEND_CONCURRENCY")),
        probes_apart=probes_apart,
    )


def told(stage: Stage, before: Mark) -> bool:
    """Whether the events of every accepted mail were told, but for those that never will be."""
    ended = {
        row["provider_message_id"]
        for row in stage.sandbox.deliveries(before.deliveries)
        if row.get("event") == "Send" and not row["will_retry"]
    }
    return all(
        row["message_id"] in ended
        for row in stage.sandbox.log(before.calls)
        if row["event"] == "accepted" and not row["recipients"][0].startswith(f"{NEVER_PROVED}+")
    )


def _desk(stage: Stage) -> set[str]:
    found: set[str] = set()
    page: dict[str, Any] = {"next": ""}
    while page["next"] is not None:
        after = f"&after={page['next']}" if page["next"] else ""
        answer = stage.api.get(f"/v1/emails?state=ambiguous&limit=100{after}")
        assert answer.status == 200, answer.text
        page = answer.json
        found |= {item["id"] for item in page["items"]}
    return found
