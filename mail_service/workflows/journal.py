"""The log lines of the rings: one JSON line per stage, with ids, class and decision, never an address.

An alarm is a line at error level whose event is ``alarm``; operating.md says what to do about each.
"""

from typing import Any

import structlog

from mail_service.store.database import Tx

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("mail_service")


def stage(event: str, **what: Any) -> None:  # noqa: ANN401 - ids, enums and numbers of many kinds
    """Record that a stage was passed."""
    _log.info(event, **{name: _text(value) for name, value in what.items() if value is not None})


def stage_once(tx: Tx, event: str, **what: Any) -> None:  # noqa: ANN401 - as above
    """Record that a stage was passed, once the transaction that passed it has committed."""
    tx.after_commit(lambda: stage(event, **what))


def alarm_once(tx: Tx, name: str, **what: Any) -> None:  # noqa: ANN401 - as above
    """Record something a person should look at, once its transaction has committed."""
    tx.after_commit(lambda: alarm(name, **what))


def alarm(name: str, **what: Any) -> None:  # noqa: ANN401 - as above
    """Record something a person should look at."""
    _log.error(
        "alarm",
        alarm=name,
        **{key: _text(value) for key, value in what.items() if value is not None},
    )


def _text(value: object) -> object:
    # Exceptions stay what they are: the log's formatter keeps their place and drops their text.
    return value if isinstance(value, bool | int | float | BaseException) else str(value)
