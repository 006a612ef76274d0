"""Backlogs: how fast the provider sees mail, and what each costs in CPU.

Every sender gets the same mail, the same processes and slots, and starts with all of its slots at
work, because the provider holds its answers until so many calls wait. The rate is taken between the
10 % and the 90 % mark of the arrivals, and CPU over the same stretch.
"""

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mail_service import wiring
from mail_service.cli import bench_cost, bench_raw
from mail_service.cli.bench_cases import Case, Figures
from mail_service.cli.bench_place import BenchFailed, Place, Running
from mail_service.cli.bench_sizes import Sizes
from mail_service.runtime import Runtime
from mail_service.settings import Process
from mail_service.store.pool import Database

GATE_SECONDS = 14.0
"""How long senders have to begin. Short of every read time-out, so that no call is given up."""

COMMAND = str(Path(sys.executable).parent / "mail-service")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sender:
    """One way of sending a backlog."""

    name: str
    prepare: Callable[[Place, Sizes], None]
    """Make a backlog of ``sizes.emails``."""
    start: Callable[[Place, Sizes], Sequence[Running]]
    finished: Callable[[Place, Sizes], int]
    """How many emails are known to be done."""
    connections: Callable[[Place], int] = lambda place: place.database.connections()
    cpu_of_database: Callable[[Place], float] = lambda place: place.cpu_of_database()
    about: str = ""


def cases(senders: Sequence[Sender], latencies: Sequence[float]) -> list[Case]:
    """Give a case for each sender at each latency."""
    return [
        Case(
            group=group_of(latency),
            name=sender.name,
            measure=lambda place, sizes, s=sender, wait=latency: measure(place, sizes, s, wait),
            about=sender.about,
        )
        for latency in latencies
        for sender in senders
    ]


def group_of(latency: float) -> str:
    """Give the name of the group of cases at a latency."""
    return f"pipeline, provider answers after {latency * 1000:.0f} ms"


def measure(place: Place, sizes: Sizes, sender: Sender, latency: float) -> Figures:
    """Send one backlog."""
    sender.prepare(place, sizes)
    slots = sizes.processes * sizes.slots
    place.provider.ask("reset", latency=latency, gate=min(slots, sizes.emails))
    started = sender.start(place, sizes)
    try:
        with suppress(BenchFailed):
            place.wait(
                "every slot to be at work",
                lambda: place.provider.ask("count")["gate"] == 0,
                seconds=GATE_SECONDS,
                running=started,
            )
        for one in started:
            one.check()
        place.provider.ask("open")
        begin = _until(place, sender, started, sizes.emails // 10)
        memory = [0.0]
        connections = [0]

        def look() -> None:
            if len(memory) == 1:
                memory.append(bench_cost.resident_mb(one.pid for one in started))
                connections.append(sender.connections(place))

        end = _until(place, sender, started, sizes.emails * 9 // 10, look)
        _until(place, sender, started, sizes.emails)
        place.wait(
            f"{sender.name} to record all {sizes.emails}",
            lambda: sender.finished(place, sizes) >= sizes.emails,
            seconds=60,
            running=started,
        )
    finally:
        place.stop(started)
    return _figures(place, sizes, begin, end) | {
        "memory MB": max(memory),
        "connections": max(connections),
        "unfinished": sizes.emails - sender.finished(place, sizes),
    }


_Mark = tuple[int, float, float]
"""Calls so far, CPU of the sender's processes, CPU of the database."""


def _until(
    place: Place,
    sender: Sender,
    started: Sequence[Running],
    calls: int,
    look: Callable[[], None] | None = None,
) -> _Mark:
    """Wait until so many calls have come; give the costs at that moment."""
    until = time.monotonic() + 60 + calls / 20
    while (came := int(place.provider.ask("count")["calls"])) < calls:
        for one in started:
            one.check()
        if time.monotonic() > until:
            raise BenchFailed(f"{sender.name} stands still after {came} calls of {calls}")
        if look is not None:
            look()
        time.sleep(0.01)
    cpu = bench_cost.cpu_seconds(one.pid for one in started)
    return came, cpu, sender.cpu_of_database(place)


def _figures(place: Place, sizes: Sizes, begin: _Mark, end: _Mark) -> dict[str, float]:
    calls = place.provider.calls()
    arrivals = sorted(at for at, _, _, _ in calls)
    first, last = arrivals[len(arrivals) // 10], arrivals[len(arrivals) * 9 // 10]
    between = len(arrivals) * 9 // 10 - len(arrivals) // 10
    recipients = {recipient for _, _, recipient, _ in calls}
    tags = {tag for _, tag, _, _ in calls}
    emails = max(1, end[0] - begin[0])
    own, database = (end[1] - begin[1]) * 1000 / emails, (end[2] - begin[2]) * 1000 / emails
    return {
        "emails/s": between / max(last - first, 1e-6),
        "CPU ms/email": own + database,
        "of that database": database,
        "duplicates": len(calls) - len(recipients) + len(calls) - len(tags),
        "missing": sizes.emails - len(recipients),
        "bytes/call": sum(size for _, _, _, size in calls) / max(1, len(calls)),
    }


def runtime(place: Place, database: Database | None = None) -> Runtime:
    """Give a runtime on the bench's database, as a web process has it."""
    settings = wiring.settings_for(place.environ, Process.WEB)
    if database is None:
        database = wiring.database(settings, Process.WEB)
    database.open()
    return wiring.runtime(settings, Process.WEB, database)


def _fill(place: Place, sizes: Sizes) -> None:
    place.database.reset()
    rt = runtime(place)
    try:
        place.database.fill(rt, sizes.emails)
    finally:
        if isinstance(rt.db, Database):
            rt.db.close()


def _raw(place: Place, sizes: Sizes) -> list[Running]:
    environ = {
        **place.environ,
        "BENCH_SES_URL": place.provider.url,
        "BENCH_MAIL": str(place.mail),
        "BENCH_SLOTS": str(sizes.slots),
    }
    share = [
        sizes.emails * (n + 1) // sizes.processes - sizes.emails * n // sizes.processes
        for n in range(sizes.processes)
    ]
    return [
        place.start(
            "raw",
            [sys.executable, bench_raw.__file__],
            {**environ, "BENCH_PROCESS": str(n), "BENCH_EMAILS": str(emails)},
        )
        for n, emails in enumerate(share)
    ]


def workers(place: Place, sizes: Sizes) -> list[Running]:
    """Start the product's own worker processes."""
    environ = {**place.environ, "SEND_CONCURRENCY": str(sizes.slots)}
    return [place.start("worker", [COMMAND, "worker"], environ) for _ in range(sizes.processes)]


RAW = Sender(
    name="raw boto3",
    prepare=lambda place, sizes: place.database.reset(),
    start=_raw,
    finished=lambda place, sizes: int(place.provider.ask("count")["calls"]),
    connections=lambda place: 0,
    cpu_of_database=lambda place: 0.0,
    about="threads that share a client; no database, no promise",
)
OURS = Sender(
    name="mail-service",
    prepare=_fill,
    start=workers,
    finished=lambda place, sizes: place.database.submitted(),
    about="mail-service worker, as the Procfile runs it",
)
