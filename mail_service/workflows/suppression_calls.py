"""The pace of calls on SES's suppression list: about one a second, of all processes together.

No transaction is open during a call or a wait, and nothing is held but a place in the row of calls.
"""

from collections.abc import Callable
from typing import TypeVar

from mail_service.errors import Throttled
from mail_service.runtime import Runtime
from mail_service.store import ses_list

Answer = TypeVar("Answer")

Pause = Callable[[float], None]
"""Waits so many seconds; raises what it likes, to stop the work before its next call."""

THROTTLED_SECONDS = (2.0, 4.0, 8.0, 16.0)
"""Waits after SES asked to slow down. Together shorter than a change is taken for."""


def ask(rt: Runtime, pause: Pause, call: Callable[[], Answer]) -> Answer:
    """Make one call when its turn has come, again after longer waits while SES is busy.

    Raises Unavailable, Throttled when SES stays busy.
    """
    for wait in THROTTLED_SECONDS:
        _wait_for_turn(rt, pause)
        try:
            return call()
        except Throttled:
            pause(wait)
    _wait_for_turn(rt, pause)
    return call()


def _wait_for_turn(rt: Runtime, pause: Pause) -> None:
    with rt.db.transaction() as tx:
        seconds = ses_list.reserve_call(tx)
    if seconds > 0:
        pause(seconds)
