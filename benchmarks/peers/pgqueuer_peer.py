"""pgqueuer: one job per email on its fastest driver (asyncpg) and loop (uvloop), work in threads.

Stated: claims of as many as there are slots, one claim ahead (what it needs at least), a thread for
each slot, completions written in batches (its default).
"""

import asyncio
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from urllib.parse import unquote

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.adapters.drivers.asyncpg import AsyncpgPoolDriver
from pgqueuer.queries import Queries
from psycopg.conninfo import conninfo_to_dict

from benchmarks.peers import job


async def connected() -> asyncpg.Pool:
    given = conninfo_to_dict(job.URL)
    return await asyncpg.create_pool(
        host=unquote(str(given["host"])),
        port=int(given.get("port", 5432)),
        user=str(given["user"]),
        database=str(given["dbname"]),
        min_size=2,
        max_size=4,
    )


async def prepare(count: int) -> None:
    async with await connected() as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        if not await queries.has_table("pgqueuer"):
            await queries.install()
        await pool.execute("TRUNCATE pgqueuer, pgqueuer_log")
        job.fill(count)
        for at in range(1, count + 1, 500):
            numbers = range(at, min(at + 500, count + 1))
            await queries.enqueue(
                ["send"] * len(numbers), [b"%d" % n for n in numbers], [0] * len(numbers)
            )


async def work() -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(job.SLOTS))
    async with await connected() as pool:
        queue = PgQueuer(AsyncpgPoolDriver(pool))

        @queue.entrypoint("send")
        async def send(given) -> None:
            await asyncio.to_thread(job.deliver, int(given.payload))

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, queue.shutdown.set)
        await queue.run(
            batch_size=job.SLOTS,
            max_concurrent_tasks=2 * job.SLOTS,
            dequeue_timeout=timedelta(seconds=5),
        )


if __name__ == "__main__":
    uvloop.run(work() if sys.argv[1] == "work" else prepare(int(sys.argv[1])))
