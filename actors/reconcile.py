"""The periodic actor ``sweep``."""

# dramatiq, dramatiq-pg and APScheduler are typed in part or not at all; they stay inside actors/.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from collections.abc import Callable

import dramatiq

from mail_service.runtime import Runtime
from mail_service.workflows import journal, reconcile

ACTOR = "sweep"


def declare(
    broker: dramatiq.Broker, runtime: Runtime, queue: str, *, tell_list: Callable[[], object]
) -> dramatiq.Actor[[], None]:
    """Declare the actor on this broker. ``tell_list`` is called where SES's list is to be told something."""

    def sweep() -> None:
        swept = reconcile.sweep(runtime)
        if swept is not None and swept.list_changes:
            tell_list()
        if swept is not None and swept.found_something:
            journal.stage(
                "sweep.done",
                leases_expired=swept.leases_expired,
                doubts_resolved=swept.doubts_resolved,
                events_matched=swept.events_matched,
                events_given_up=swept.events_given_up,
            )

    return dramatiq.actor(sweep, actor_name=ACTOR, broker=broker, queue_name=queue)
