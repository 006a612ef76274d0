"""A web process in a storm: what is brought to it, and what came back."""

import json
import math
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import storm_client
from mail_service.cli import bench_cost
from mail_service.cli.bench_cases import percentile
from mail_service.cli.bench_place import Place, Running

Tell = Callable[[int, int], None]
"""Is told how many were brought, and of how many."""
LetGo = Callable[[], None]
_SNS = "Content-Type: text/plain; charset=UTF-8\r\nx-amz-sns-message-type: Notification"
_JSON = "Content-Type: application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """How hard it blows."""

    emails: int = 2000
    redeliveries: int = 100_000
    connections: int = 64
    signups: float = 10
    """A second, throughout."""
    probes: float = 2
    """Of /readyz, a second."""
    locked: int = 200
    """Emails whose rows somebody holds."""
    held_seconds: float = 8
    """At most: the server's own limit on an idle transaction of ours is 10 s."""
    seed: int = 1


class Blown:
    """What came back from a storm."""

    def __init__(self, found: dict[str, Any], cpu: float, of_database: float) -> None:
        self._found = found
        self._cpu = cpu
        self._of_database = of_database
        self.refused: list[int] = found["storm"]["refused"]
        """Numbers of the bodies that were not taken."""

    def figures(self) -> dict[str, float]:
        """Give it as figures."""
        storm, intake, ready = (self._found[name] for name in ("storm", "intake", "readyz"))
        return {
            "deliveries": len(storm["seconds"]),
            "deliveries/s": len(storm["seconds"]) / self._found["seconds"],
            "CPU ms/delivery": self._cpu,
            "of that database": self._of_database,
            **_times("webhook", storm),
            **_times("intake", intake),
            **_times("readyz", ready),
        }


def _times(name: str, stream: dict[str, Any]) -> dict[str, float]:
    statuses: dict[str, int] = stream["statuses"]
    return {
        f"{name} p50 ms": percentile(stream["seconds"], 0.5) * 1000,
        f"{name} p99 ms": percentile(stream["seconds"], 0.99) * 1000,
        f"{name} longest ms": max(stream["seconds"], default=math.nan) * 1000,
        f"{name} 2xx": sum(n for status, n in statuses.items() if status.startswith("2")),
        f"{name} 503": statuses.get("503", 0),
        f"{name} other": sum(
            n for s, n in statuses.items() if not s.startswith("2") and s != "503"
        ),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Web:
    """A web process that is up, and where it takes events and sign-ups."""

    place: Place
    running: Running
    weather: Weather
    key: str = ""
    events: str = "/webhooks/ses/sns"
    accounts: str = "/v1/accounts"
    ready: str = "/readyz"

    def storm(
        self, bodies: Sequence[str], count: int, tell: Tell, let_go: LetGo | None = None
    ) -> Blown:
        """Bring bodies, ``count`` times in all, while others sign up and ask; ``let_go`` after a while."""
        place, order = self.place, self.place.run.path / "storm.json"
        order.write_text(json.dumps(self._order(bodies, count)))
        begin = bench_cost.cpu_seconds([self.running.pid]), place.cpu_of_database()
        client = place.start("storm", [sys.executable, "-I", storm_client.__file__, str(order)], {})
        answer = Path(f"{order}.answer")
        until = time.monotonic() + self.weather.held_seconds

        def done() -> bool:
            tell(_brought(client), count)
            if let_go is not None and time.monotonic() > until:
                let_go()
            return answer.exists()

        try:
            place.wait("the storm", done, seconds=120 + count / 20, running=[client, self.running])
            end = bench_cost.cpu_seconds([self.running.pid]), place.cpu_of_database()
            found = json.loads(answer.read_text())
            answer.unlink()
        finally:
            place.stop([client])
        own, database = ((b - a) * 1000 / count for a, b in zip(begin, end, strict=True))
        return Blown(found, own + database, database)

    def _order(self, bodies: Sequence[str], count: int) -> dict[str, Any]:
        file = self.place.run.path / "storm.bodies"
        file.write_text("\n".join(bodies))
        host = "HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        signing_up = f"POST {self.accounts} {host}{_JSON}\r\nAuthorization: Bearer {self.key}"
        body = json.dumps({"email": f"{secrets.token_hex(4)}-N@example.com", "name": "Ada"})
        return {
            "port": self.place.port,
            "seed": self.weather.seed,
            "storm": {
                "head": f"POST {self.events} {host}{_SNS}",
                "bodies": str(file),
                "count": count,
                "connections": self.weather.connections,
            },
            "others": {
                "intake": {"head": signing_up, "body": body, "rate": self.weather.signups},
                "readyz": {
                    "head": f"GET {self.ready} {host[:-2]}",
                    "body": "",
                    "rate": self.weather.probes,
                },
            },
        }


def _brought(client: Running) -> int:
    """Give how many deliveries a storm's client said were answered."""
    said = client.log.read_bytes().split()
    return int(said[-1]) if said and said[-1].isdigit() else 0
