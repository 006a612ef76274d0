"""The shared send rate: set, or read from SES's quota once a minute."""

from mail_service.domain.outcomes import HoldScope
from mail_service.errors import Unavailable
from mail_service.runtime import Runtime
from mail_service.store import holds, housekeeping, rate
from mail_service.workflows import journal

QUOTA_GOOD_FOR_SECONDS = 60.0
_ASKED = "quota"


def refresh(rt: Runtime) -> None:
    """Set the shared rate. Asks SES at most once a minute, outside any transaction.

    While SES does not say, the rate last known stands; it is never raised by guessing.
    """
    fixed = rt.settings.send_rate
    if fixed != "auto":
        with rt.db.transaction() as tx:
            rate.set_rate(tx, per_second=fixed, day_left=None, quota_read=False)
        return
    with rt.db.transaction() as tx:
        if not housekeeping.take_turn(tx, _ASKED, QUOTA_GOOD_FOR_SECONDS):
            return
    try:
        quota = rt.read_quota()
    except Unavailable as silent:
        journal.alarm("quota_unknown", why=str(silent))
        return
    left = None if quota.max_per_day is None else max(0.0, quota.max_per_day - quota.sent_last_day)
    with rt.db.transaction() as tx:
        rate.set_rate(tx, per_second=max(quota.max_per_second, 0.1), day_left=left, quota_read=True)
        held = any(hold.scope is HoldScope.ACCOUNT for hold in holds.open_now(tx))
    journal.stage("quota.read", per_second=quota.max_per_second, day_left=left)
    if not quota.sending_enabled and not held:  # a hold has raised its alarm already
        journal.alarm("sending_disabled")
