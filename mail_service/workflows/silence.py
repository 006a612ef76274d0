"""Mail goes out and nothing comes back: the one loss of events that no event tells of."""

from mail_service.domain.events import EXPECTED_WITHIN_SECONDS
from mail_service.runtime import Runtime
from mail_service.store import events, housekeeping
from mail_service.workflows import journal

TOLD_EVERY_SECONDS = 3600.0
_TOLD = "events_silent"


def watch(rt: Runtime) -> None:
    """Raise an alarm when accepted mail waits and no event comes; while it lasts, once an hour."""
    with rt.db.transaction() as tx:
        silent = events.silent_seconds(tx)
        if silent is None or silent < EXPECTED_WITHIN_SECONDS:
            return
        if not housekeeping.take_turn(tx, _TOLD, TOLD_EVERY_SECONDS):
            return
        journal.alarm_once(
            tx,
            "events_silent",
            seconds=round(silent),
            configuration_set_named=rt.settings.ses_configuration_set is not None,
        )
