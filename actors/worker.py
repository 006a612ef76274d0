"""The worker process: one dramatiq Worker and one drain, with signal handling of our own.

dramatiq's command forwards SIGTERM to its children and takes the second one as "die now"; on a
platform that signals every process of a dyno, that cuts SES calls in half at each deploy. Here a
handler only sets a flag: no claims after it, calls in flight run to their end, results are recorded,
unused leases are released, and the process exits within 25 s.
"""

import os
import sys

from dramatiq import Worker

from actors import broker as brokers
from actors import dispatch, reconcile, suppressions
from actors.drain import Drain
from actors.stopping import StopSignal, last_resort
from mail_service import logs, wiring
from mail_service.errors import SettingsError
from mail_service.settings import Process
from mail_service.workflows import journal

STOPS_WITHIN_SECONDS = 23.5
KEEPER_ENDS_WITHIN_SECONDS = 2.0


def main() -> int:
    """Run until signalled; gives the exit status."""
    try:
        settings = wiring.settings_for(os.environ, Process.WORKER)
        logs.configure(settings.log_level, process="worker")
        db = wiring.database(settings, Process.WORKER)
        runtime = wiring.runtime(settings, Process.WORKER, db)
        wiring.refuse_to_forget(settings)
    except SettingsError as problem:
        print(problem, file=sys.stderr)  # noqa: T201 - before there is a log
        return 1
    stop = StopSignal()
    db.open()
    drain = Drain(runtime, wiring.line(settings))
    broker = brokers.build(settings.database_url.get_secret_value())
    dispatch.declare(broker, drain, brokers.QUEUE)
    keeper = suppressions.Keeper(runtime)
    reconcile.declare(broker, runtime, brokers.QUEUE, tell_list=keeper.hear)
    suppressions.declare(broker, keeper, brokers.QUEUE)
    # One thread: hints are few. It takes a second to see that it is stopped.
    worker = Worker(broker, queues={brokers.QUEUE}, worker_threads=1, worker_timeout=1000)
    thread = dispatch.start(drain)
    worker.start()
    keeper.start()
    journal.stage("worker.started", slots=settings.send_concurrency)
    while not stop.wait(1.0):
        if not thread.is_alive():
            journal.alarm("drain_died")
            drain = Drain(runtime, wiring.line(settings))
            thread = dispatch.start(drain)
    journal.stage("worker.stopping")
    last_resort(STOPS_WITHIN_SECONDS, drain.last_words)
    drain.stop()
    keeper.stop(0)
    # While the calls in flight run to their end: hints mean nothing any more.
    worker.stop(timeout=2000)
    thread.join()
    keeper.stop(KEEPER_ENDS_WITHIN_SECONDS)
    db.close()
    journal.stage("worker.stopped")
    stop.ignore()
    return 0
