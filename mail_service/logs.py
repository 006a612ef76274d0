"""JSON lines on stdout, one per stage: our own and every library's, in one form.

Nothing here knows addresses or bodies, and the libraries that would print them are kept quiet:
botocore and urllib3 log requests at DEBUG, psycopg and dramatiq may quote values.
"""

import logging
import sys
import traceback
from functools import partial
from typing import TextIO, cast

import structlog
from structlog.typing import EventDict, WrappedLogger

_QUIET = (
    "botocore",
    "boto3",
    "urllib3",
    "psycopg",
    "psycopg.pool",
    "s3transfer",
    "dramatiq_pg",
    "apscheduler",
)


def configure(level: str, *, process: str) -> None:
    """Send every log line of this process to stdout as JSON."""

    def name_the_process(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
        event["process"] = process
        return event

    shared = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        name_the_process,
    ]
    rendered = [_trace_without_values, structlog.processors.JSONRenderer(default=str)]
    # Ours go straight to stdout: a record of the standard library costs more than the whole line.
    structlog.configure(
        processors=[*shared, *rendered],
        logger_factory=partial(_Stdout, sys.stdout),
        wrapper_class=structlog.make_filtering_bound_logger(level),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *rendered,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)


class _Stdout(structlog.WriteLogger):
    """One of our loggers, by its name."""

    def __init__(self, out: TextIO, name: str) -> None:
        super().__init__(out)
        self.name = name


def _trace_without_values(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    """Keep where an exception came from and what kind it was, never its text.

    Texts of database and validation errors quote the row or the value, which may be an address.
    """
    given: object = event.pop("exc_info", None)
    event.pop("stack_info", None)
    error = given if isinstance(given, BaseException) else None
    if given is True:
        error = sys.exc_info()[1]
    elif isinstance(given, tuple):
        error = next(
            (part for part in cast("tuple[object, ...]", given) if isinstance(part, BaseException)),
            None,
        )
    if error is None:
        return event
    event["error"] = type(error).__name__
    event["where"] = [
        f"{frame.filename}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)[-8:]
    ]
    return event
