"""procrastinate: one job per email, blocking work in threads, as its docs say for sync tasks.

Stated: concurrency of all slots, an executor with as many threads (asyncio's default has six on two
cores), LISTEN on, jobs kept (the default), no retry strategy (the default).
"""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor

import procrastinate

from benchmarks.peers import job

app = procrastinate.App(
    connector=procrastinate.PsycopgConnector(conninfo=job.URL, min_size=1, max_size=job.SLOTS)
)


@app.task(queue="mail", name="send")
def send(email_id: int) -> None:
    job.deliver(email_id)


async def prepare(count: int) -> None:
    async with app.open_async():
        if not await app.check_connection_async():
            await app.schema_manager.apply_schema_async()
        await app.connector.execute_query_async(
            "TRUNCATE procrastinate_jobs, procrastinate_events, procrastinate_periodic_defers CASCADE"
        )
        job.fill(count)
        numbers = list(range(1, count + 1))
        for at in range(0, count, 500):
            await send.batch_defer_async(*({"email_id": n} for n in numbers[at : at + 500]))


async def work() -> None:
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(job.SLOTS))
    async with app.open_async():
        await app.run_worker_async(queues=["mail"], concurrency=job.SLOTS)


if __name__ == "__main__":
    asyncio.run(work() if sys.argv[1] == "work" else prepare(int(sys.argv[1])))
