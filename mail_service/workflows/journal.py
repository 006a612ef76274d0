"""The log lines of the rings: one JSON line per stage, with ids, class and decision, never an address.

An alarm is a line at error level whose event is ``alarm``; operating.md says what to do about each.
"""

from typing import Any

import structlog

_log: structlog.stdlib.BoundLogger = structlog.get_logger("mail_service")


def stage(event: str, **what: Any) -> None:  # noqa: ANN401 - ids, enums and numbers of many kinds
    """Record that a stage was passed."""
    _log.info(event, **{name: _text(value) for name, value in what.items() if value is not None})


def alarm(name: str, **what: Any) -> None:  # noqa: ANN401 - as above
    """Record something a person should look at."""
    _log.error(
        "alarm",
        alarm=name,
        **{key: _text(value) for key, value in what.items() if value is not None},
    )


def _text(value: object) -> object:
    return value if isinstance(value, (bool, int, float)) else str(value)
