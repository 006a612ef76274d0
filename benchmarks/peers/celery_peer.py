"""celery on Redis: one task per email, threads, acknowledged late so that a kill loses none.

Stated: no results, no events, prefetch of two per slot, Redis with an append-only file synced each
second. Queue and emails are in two stores: what is enqueued is not atomic with what is written.
"""

import os
import sys

import redis
from celery import Celery

from benchmarks.peers import job

app = Celery("benchmarks.peers.celery_peer", broker=os.environ.get("BENCH_REDIS_URL"))
app.conf.update(
    task_ignore_result=True,
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=2,
    worker_send_task_events=False,
    broker_connection_retry_on_startup=True,
    worker_hijack_root_logger=False,
    task_default_queue="mail",
)


@app.task(name="send", max_retries=0)
def send(email_id: int) -> None:
    job.deliver(email_id)


def prepare(count: int) -> None:
    redis.Redis.from_url(os.environ["BENCH_REDIS_URL"]).flushall()
    job.fill(count)
    with app.producer_pool.acquire(block=True) as producer:
        for email_id in range(1, count + 1):
            send.apply_async((email_id,), producer=producer)


if __name__ == "__main__":
    prepare(int(sys.argv[1]))
