"""The clock process: enqueues the periodic actors. Two clocks are harmless, none only slows recovery."""

# dramatiq, dramatiq-pg and APScheduler are typed in part or not at all; they stay inside actors/.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

import os
import sys
from datetime import UTC, datetime
from typing import Any

import dramatiq
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from actors import broker as brokers
from actors import reconcile, suppressions
from actors.stopping import StopSignal, last_resort
from mail_service import logs, wiring
from mail_service.errors import SettingsError
from mail_service.settings import Process, Settings
from mail_service.workflows import journal
from mail_service.workflows.suppression_sync import RECENT_EVERY_SECONDS

STOPS_WITHIN_SECONDS = 5.0


def main() -> int:
    """Run until signalled; gives the exit status."""
    try:
        settings = Settings.from_env(os.environ, Process.CLOCK)
        wiring.refuse_to_forget(settings)
    except SettingsError as problem:
        print(problem, file=sys.stderr)  # noqa: T201 - before there is a log
        return 1
    logs.configure(settings.log_level, process="clock")
    stop = StopSignal()
    broker = brokers.build(settings.database_url.get_secret_value())
    broker.declare_queue(brokers.QUEUE)

    def tick(actor: str) -> None:
        message: dramatiq.Message[object] = dramatiq.Message(
            queue_name=brokers.QUEUE, actor_name=actor, args=(), kwargs={}, options={}
        )
        try:
            broker.enqueue(message)
        except dramatiq.DramatiqError as fault:
            journal.alarm(f"{actor}_not_enqueued", error=str(fault))

    scheduler = BackgroundScheduler(timezone=UTC, executors={"default": ThreadPoolExecutor(1)})
    every: dict[str, Any] = {"coalesce": True, "max_instances": 1, "misfire_grace_time": None}
    scheduler.add_job(
        tick,
        "interval",
        [reconcile.ACTOR],
        seconds=settings.sweep_seconds,
        next_run_time=datetime.now(UTC),
        **every,
    )
    # A worker looks at SES's list when it starts, so this hint can wait for its first hour.
    scheduler.add_job(tick, "interval", [suppressions.ACTOR], seconds=RECENT_EVERY_SECONDS, **every)
    scheduler.start()
    journal.stage("clock.started", sweep_seconds=settings.sweep_seconds)
    while not stop.wait(60.0):
        pass
    # A tick that hangs holds nothing that is worth waiting for.
    last_resort(STOPS_WITHIN_SECONDS, lambda: None, status=0)
    scheduler.shutdown(wait=False)
    journal.stage("clock.stopped")
    stop.ignore()
    return 0
