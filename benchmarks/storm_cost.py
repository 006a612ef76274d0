"""What an event costs, and of what that consists: functions timed from outside, in one thread.

The same events go through each step by itself and then through all of it; the transaction is what is
left. Median wall time, and the thread's own CPU; the server's CPU comes on top and is told apart.
"""

import json
import statistics
import time
from collections.abc import Callable
from uuid import UUID

from benchmarks.storm_parts import Storm
from benchmarks.storm_web import Tell
from mail_service.cli.bench_cases import Figures
from mail_service.cli.bench_formation import opened
from mail_service.cli.bench_place import Place
from mail_service.domain.events import EventKind, EventStatus, Notification
from mail_service.gateways import sns
from mail_service.workflows import ingest, journal
from mail_service.workflows.ingest import Taken
from mail_service.workflows.understand import understand

_HEADERS = {"x-amz-sns-message-type": "Notification"}
_NOBODY = UUID(int=0)


def split(place: Place, storm: Storm, tell: Tell) -> tuple[Figures, Figures]:
    """Give what a new event costs, and what a redelivery does, in milliseconds and by step."""
    bodies = [body.encode() for body in storm.bodies]
    fields: list[dict[str, str]] = [json.loads(body) for body in bodies]
    with opened(place) as rt:
        envelopes = [rt.read_envelope(_HEADERS, body) for body in bodies]
        texts = [one for one in envelopes if isinstance(one, Notification)]
        number = len(bodies)
        verified = _timed(lambda n: sns.verify(storm.public_key, fields[n]), number)
        tell(1, 6)
        read = _timed(lambda n: rt.read_envelope(_HEADERS, bodies[n]), number)
        tell(2, 6)
        understood = _timed(lambda n: understand(rt, texts[n].text, at=texts[n].at), number)
        tell(3, 6)
        line = _timed(lambda _: _say(), number)
        tell(4, 6)
        found: list[Figures] = []
        for wanted in (Taken.STORED, Taken.DUPLICATE):
            taken: list[Taken] = []
            before = place.cpu_of_database()

            def take(n: int, taken: list[Taken] = taken) -> None:
                taken.append(ingest.accept(rt, _HEADERS, bodies[n]))

            whole = _timed(take, number)
            database = (place.cpu_of_database() - before) * 1000 / number
            tell(4 + len(found) + 1, 6)
            steps = {
                "verification": verified,
                "reading the envelope": _less(read, verified),
                "reading the event": understood,
                "log line": line,
            }
            rest = _less(whole, read, understood, line)
            found.append(
                {
                    "events": number,
                    **{f"{name}, ms": wall for name, (wall, _) in steps.items()},
                    "transaction, ms": rest[0],
                    "whole, ms": whole[0],
                    **{f"{name}, CPU ms": cpu for name, (_, cpu) in steps.items()},
                    "transaction, CPU ms": rest[1],
                    "whole, CPU ms": whole[1],
                    "the database's CPU ms": database,
                    "missing": sum(one is not wanted for one in taken),
                }
            )
    new, again = found
    return new, again


_Times = tuple[float, float]
"""Wall and CPU milliseconds of one call: a median, which others' work disturbs little, and a mean."""


def _timed(work: Callable[[int], object], number: int) -> _Times:
    walls: list[float] = []
    cpu = time.thread_time()
    for n in range(number):
        begun = time.perf_counter()
        work(n)
        walls.append(time.perf_counter() - begun)
    cpu = time.thread_time() - cpu
    return statistics.median(walls) * 1000, cpu * 1000 / number


def _less(whole: _Times, *parts: _Times) -> _Times:
    return (
        whole[0] - sum(wall for wall, _ in parts),
        whole[1] - sum(cpu for _, cpu in parts),
    )


def _say() -> None:
    journal.stage(
        "event.stored",
        event_id=_NOBODY,
        sns_message_id=str(_NOBODY),
        kind=EventKind.DELIVERY,
        status=EventStatus.MATCHED,
        provider_message_id=str(_NOBODY),
        attempt_id=str(_NOBODY),
    )
