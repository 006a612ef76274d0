"""dramatiq-pg: one message per email, as its README has it, with its defaults' defects worked around.

Stated: no results, no middleware but what dramatiq needs to run (retries off), prefetch raised through
the environment (the default lets the back-off of full consumers grow to a second and stay), a pool
large enough that it never runs dry (it raises instead of waiting).
"""

import sys

import dramatiq
import psycopg2
from dramatiq_pg import PostgresBroker
from dramatiq_pg.schema import generate_init_sql
from dramatiq_pg.utils import make_pool
from psycopg.conninfo import conninfo_to_dict

from benchmarks.peers import job

broker = PostgresBroker(
    pool=make_pool({**conninfo_to_dict(job.URL), "maxconn": job.SLOTS + 16}),
    results=False,
    middleware=[],
)
dramatiq.set_broker(broker)


@dramatiq.actor(queue_name="mail")
def send(email_id: int) -> None:
    job.deliver(email_id)


def prepare(count: int) -> None:
    connection = psycopg2.connect(job.URL)
    with connection, connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('dramatiq.queue')")
        if cursor.fetchone() == (None,):
            cursor.execute(generate_init_sql("dramatiq"))
        cursor.execute("TRUNCATE dramatiq.queue")
    connection.close()
    job.fill(count)
    for email_id in range(1, count + 1):
        send.send(email_id)


if __name__ == "__main__":
    prepare(int(sys.argv[1]))
