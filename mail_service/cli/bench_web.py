"""The web routes against bare ones: the same gunicorn, the same SQL, one commit, and nothing else.

The bare routes are in ``benchmarks/bare.py`` of the checkout. The difference is what the product adds:
keys, strict reading, signatures, answers, logs, the nudge.
"""

import json
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from mail_service.cli import bench_cost, bench_events, bench_load
from mail_service.cli.bench_cases import CannotMeasure, Case, Figures, percentile
from mail_service.cli.bench_formation import wait_ready, web
from mail_service.cli.bench_pipeline import COMMAND
from mail_service.cli.bench_place import BenchFailed, Place, Running
from mail_service.cli.bench_sizes import Sizes
from mail_service.cli.demo_processes import ROOT

INTAKE = "POST /v1/accounts"
WEBHOOK = "webhook, delivery events of known calls"
BARE = ROOT / "benchmarks" / "bare.py"


@contextmanager
def bare(place: Place) -> Generator[Running]:
    """Run the bare routes as the product's web process is run: as many processes, threads, connections."""
    if not BARE.exists():
        raise CannotMeasure("the bare routes are in the checkout alone")
    gunicorn = COMMAND.replace("mail-service", "gunicorn")
    running = place.start(
        "bare",
        [
            *(gunicorn, "benchmarks.bare:application", "--config", "python:benchmarks.bare"),
            *("--bind", f"127.0.0.1:{place.port}"),
        ],
        place.environ,
    )
    try:
        wait_ready(place, running, "/ready")
        yield running
    finally:
        place.stop([running])


def intake(place: Place, sizes: Sizes) -> Figures:
    """Post sign-ups to the product."""
    place.database.reset()
    with web(place) as (running, key):
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        return _post(place, sizes, running, "/v1/accounts", headers, _signups(sizes), "201")


def bare_intake(place: Place, sizes: Sizes) -> Figures:
    """Post the same sign-ups to the bare route."""
    place.database.reset()
    with bare(place) as running:
        headers = {"Content-Type": "application/json"}
        return _post(place, sizes, running, "/accounts", headers, _signups(sizes), "201")


def webhook(place: Place, sizes: Sizes) -> Figures:
    """Post signed events to the product, each about another call."""
    events = _events(place, sizes)
    with web(place) as (running, _):
        return _post(place, sizes, running, "/webhooks/ses/sns", _SNS, events, "200")


def bare_webhook(place: Place, sizes: Sizes) -> Figures:
    """Post the same events to the bare route."""
    events = _events(place, sizes)
    with bare(place) as running:
        return _post(place, sizes, running, "/events", _SNS, events, "200")


_SNS = {"Content-Type": "text/plain; charset=UTF-8", "x-amz-sns-message-type": "Notification"}


def _signups(sizes: Sizes) -> list[str]:
    bodies = ({"email": f"intake-{n}@example.com", "name": "Ada"} for n in range(sizes.requests))
    return [json.dumps(body) for body in bodies]


def _post(
    place: Place,
    sizes: Sizes,
    running: Running,
    path: str,
    headers: Mapping[str, str],
    bodies: Sequence[str],
    wanted: str,
) -> Figures:
    file = place.run.path / "bodies"
    file.write_text("\n".join(bodies))
    order = place.run.path / "order.json"
    order.write_text(
        json.dumps(
            {
                "port": place.port,
                "path": path,
                "headers": headers,
                "bodies": str(file),
                "connections": sizes.connections,
            }
        )
    )
    begin = bench_cost.cpu_seconds([running.pid]), place.cpu_of_database()
    client = place.start("load", [sys.executable, "-I", bench_load.__file__, str(order)], {})
    try:
        answer = Path(f"{order}.answer")
        place.wait("the requests", answer.exists, seconds=300, running=[client, running])
        end = bench_cost.cpu_seconds([running.pid]), place.cpu_of_database()
        connections = place.database.connections()
        said = json.loads(answer.read_text())
        answer.unlink()
    finally:
        place.stop([client])
    if set(said["statuses"]) != {wanted}:
        raise BenchFailed(f"{path} answered {said['statuses']}")
    ends: list[float] = said["ends"]
    first, last = len(ends) // 10, len(ends) * 9 // 10
    return {
        "requests/s": (last - first) / max(ends[last] - ends[first], 1e-6),
        "CPU ms/request": sum(b - a for a, b in zip(begin, end, strict=True)) * 1000 / len(ends),
        "of that database": (end[1] - begin[1]) * 1000 / len(ends),
        "p50 ms": percentile(said["seconds"], 0.5) * 1000,
        "p99 ms": percentile(said["seconds"], 0.99) * 1000,
        "memory MB": bench_cost.resident_mb([running.pid]),
        "connections": connections,
    }


def _events(place: Place, sizes: Sizes) -> list[str]:
    """Have so many emails submitted, and give a signed delivery event of each."""
    calls = bench_events.submitted(place, sizes.requests)
    publisher = bench_events.Publisher(place)
    return [publisher.event(call) for call in calls]


CASES = (
    Case(group=INTAKE, name="bare route", measure=bare_intake),
    Case(group=INTAKE, name="mail-service", measure=intake),
    Case(group=WEBHOOK, name="bare route", measure=bare_webhook),
    Case(group=WEBHOOK, name="mail-service", measure=webhook),
)
