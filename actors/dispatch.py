"""The actor ``dispatch``: its body is the drain. A hint only wakes the one that already runs here."""

# dramatiq, dramatiq-pg and APScheduler are typed in part or not at all; they stay inside actors/.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

import threading

import dramatiq

from actors.drain import Drain


def declare(broker: dramatiq.Broker, drain: Drain, queue: str) -> None:
    """Declare the actor on this broker."""

    def dispatch() -> None:
        drain.wake()

    dramatiq.actor(dispatch, actor_name="dispatch", broker=broker, queue_name=queue)


def start(drain: Drain) -> threading.Thread:
    """Run the drain on a thread of its own, without waiting for a hint; gives the thread.

    Another process could take the hint, or the broker's table be empty.
    """
    thread = threading.Thread(target=drain.run, name="drain", daemon=True)
    thread.start()
    return thread
