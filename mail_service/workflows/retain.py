"""Personal data is kept no longer than needed: content goes after its days."""

from mail_service.runtime import Runtime
from mail_service.store import housekeeping, retention
from mail_service.workflows import journal

BATCH = 500
MAX_BATCHES = 1000
HOUR = 3600.0
_RETENTION = "retention"


def hourly(rt: Runtime) -> None:
    """Run the retention once an hour, whoever comes first."""
    with rt.db.transaction() as tx:
        if not housekeeping.take_turn(tx, _RETENTION, HOUR):
            return
    erased = run(rt)
    if erased:
        journal.stage("retention.done", contents=erased)


def run(rt: Runtime) -> int:
    """Delete the content of emails that ended longer ago than their days; gives how many."""
    total = 0
    for _ in range(MAX_BATCHES):
        with rt.db.transaction() as tx:
            erased = retention.erase_contents(
                tx, older_than_days=rt.settings.retain_content_days, limit=BATCH
            )
        total += erased
        if erased < BATCH:
            break
    return total
