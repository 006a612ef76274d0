"""The dramatiq-pg broker, set up so that its defects can't hurt. The only file that knows psycopg2.

A hint in its table is never the record: the outbox is. So hints may be lost, doubled or purged, and
what is left to the broker is little: one queue, few rows, no delays, no results, no retries.
``docs/decisions/0003-hints-not-jobs.md`` lists its defects and what contains each.
"""

# dramatiq, dramatiq-pg and APScheduler are typed in part or not at all; they stay inside actors/.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from typing import cast

import dramatiq
import psycopg2
from dramatiq.middleware import AgeLimit
from dramatiq_pg import PostgresBroker
from dramatiq_pg.schema import generate_init_sql
from dramatiq_pg.utils import make_pool
from psycopg.conninfo import conninfo_to_dict
from psycopg2.extensions import connection as connection_type
from tenacity import stop_after_attempt

QUEUE = "mail"
SCHEMA = "dramatiq"

WORKER_CONNECTIONS = 3
"""LISTEN, consume, and one for acknowledgements: there is one worker thread, so one is enough."""


class HintBroker(PostgresBroker):
    """One queue of hints. No delay queue, so no consumer that holds two more connections for it."""

    def declare_queue(self, queue_name: str) -> None:
        """Declare the queue alone; the stock broker declares a delayed twin with it."""
        if queue_name not in self.queues:
            self.emit_before("declare_queue", queue_name)
            self.queues[queue_name] = True
            self.emit_after("declare_queue", queue_name)

    def hint(self, message: dramatiq.Message[object]) -> None:
        """Enqueue once. The stock broker tries ten times with waits of up to 30 s each."""
        # tenacity's wrapper carries this function; no stub knows of it.
        once = getattr(PostgresBroker.enqueue, "retry_with")(stop=stop_after_attempt(1))  # noqa: B009
        once(self, message)

    def waiting(self) -> int:
        """Give how many hints wait to be taken."""
        connection = cast("connection_type", self.pool.getconn())
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute("SELECT FROM dramatiq.queue WHERE state = 'queued'")
                return cursor.rowcount
        finally:
            self.pool.putconn(connection)


def build(url: str, *, connections: int) -> HintBroker:
    """Build the broker on a pool of at most this many connections. Nothing is connected yet."""
    parameters = {key: str(value) for key, value in conninfo_to_dict(url).items()}
    pool = make_pool(
        parameters
        | {
            "application_name": "mail-service broker",
            "maxconn": connections,
            "connect_timeout": "5",
            # The broker stores times in the session's zone as if they were UTC.
            "options": f"{parameters.get('options', '')} -c timezone=UTC".strip(),
        }
    )
    # The default middleware brings retries, time limits and shutdown exceptions. Retry policy is the
    # outbox's, and an exception thrown into a thread between SES's answer and the commit is a lost
    # answer. Only stale hints are dropped.
    return HintBroker(pool=pool, results=False, schema=SCHEMA, prefix="", middleware=[AgeLimit()])


def install_schema(url: str) -> bool:
    """Create the broker's schema where it is missing; says whether it did. Safe beside a twin."""
    connection = psycopg2.connect(url, connect_timeout=5)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", (7_205_519_340_026_415,))
            cursor.execute("SELECT to_regclass(%s)", (f"{SCHEMA}.queue",))
            if cursor.fetchone() != (None,):
                return False
            cursor.execute(generate_init_sql(SCHEMA))
            return True
    finally:
        connection.close()
