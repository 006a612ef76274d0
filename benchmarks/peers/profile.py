"""The peers as data: how each is prepared and started, and what counts as done."""

import shutil
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from mail_service.cli import bench_cost, demo_settings
from mail_service.cli.bench_pipeline import Sender
from mail_service.cli.bench_place import BenchFailed, Place, Running
from mail_service.cli.bench_sizes import Sizes

ROOT = Path(__file__).parents[2]
BIN = ROOT / ".venv-bench" / "bin"
_DONE = "SELECT count(*) FROM bench_emails WHERE state = 'done'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """One peer: its module, its command for one process or for all, and its count of what is done."""

    name: str
    module: str
    command: Sequence[str]
    """Of its worker; {slots} and {processes} are filled in."""
    at_once: bool = False
    """One command starts all processes."""
    done: str = _DONE
    redis: bool = False
    about: str = ""


PEERS = (
    Peer(
        name="dramatiq-pg",
        module="dramatiq_pg_peer",
        command=(
            *("dramatiq", "benchmarks.peers.dramatiq_pg_peer", "--skip-logging"),
            *("--processes", "{processes}", "--threads", "{slots}"),
        ),
        at_once=True,
        about="one message per email, prefetch raised, full job",
    ),
    Peer(
        name="procrastinate",
        module="procrastinate_peer",
        command=("python", "-m", "benchmarks.peers.procrastinate_peer", "work"),
        about="one job per email, a thread per slot, full job",
    ),
    Peer(
        name="pgqueuer",
        module="pgqueuer_peer",
        command=("python", "-m", "benchmarks.peers.pgqueuer_peer", "work"),
        about="asyncpg, uvloop, batches, a thread per slot, full job",
    ),
    Peer(
        name="celery, Redis",
        module="celery_peer",
        command=(
            *("celery", "-A", "benchmarks.peers.celery_peer", "worker", "--pool", "threads"),
            *("--concurrency", "{slots}", "--loglevel", "ERROR", "--without-gossip"),
            *("--without-mingle", "--without-heartbeat", "-n", "worker{number}@bench"),
        ),
        redis=True,
        about="late acknowledgement, append-only file, full job",
    ),
    Peer(
        name="django-post_office",
        module="post_office_peer",
        command=("python", "-m", "benchmarks.peers.post_office_peer", "work"),
        at_once=True,
        done="SELECT count(*) FROM post_office_email WHERE status = 0",
        about="no claim, no attempt, no token: less than the full job",
    ),
)


class Started:
    """A peer in a bench: its database, and its Redis where it needs one."""

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._url = ""
        self._redis: Running | None = None
        self._redis_port = 0

    def sender(self) -> Sender:
        """Give it as a way of sending a backlog."""
        return Sender(
            name=self._peer.name,
            prepare=self._prepare,
            start=self._start,
            finished=lambda place, sizes: self._value(self._peer.done),
            connections=lambda place: self._value(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            ),
            cpu_of_database=self._cpu,
            about=self._peer.about,
        )

    def _prepare(self, place: Place, sizes: Sizes) -> None:
        if place.postgres is None:
            raise BenchFailed("the peers need the embedded PostgreSQL: unset DATABASE_URL")
        if not self._url:
            self._url = place.postgres.create_database(self._peer.module)
        if self._peer.redis and self._redis is None:
            self._start_redis(place)
        made = place.start(
            f"{self._peer.module}-prepare",
            [*self._python(), f"benchmarks.peers.{self._peer.module}", str(sizes.emails)],
            self._environ(place, sizes),
        )
        place.wait(
            f"{self._peer.name} to make its backlog",
            lambda: made.process.poll() is not None,
            seconds=120 + sizes.emails / 50,
        )
        made.check()
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            connection.execute("CHECKPOINT")
        place.stop([made])

    def _start(self, place: Place, sizes: Sizes) -> list[Running]:
        count = 1 if self._peer.at_once else sizes.processes
        started: list[Running] = []
        for number in range(count):
            words = [
                word.format(slots=sizes.slots, processes=sizes.processes, number=number)
                for word in self._peer.command
            ]
            words[0] = str(BIN / words[0])
            environ = {**self._environ(place, sizes), "BENCH_PROCESSES": str(sizes.processes)}
            started.append(place.start(self._peer.module, words, environ))
        return started

    def _start_redis(self, place: Place) -> None:
        """Start a Redis that syncs its file each second; it vanishes with the bench."""
        port = self._redis_port = demo_settings.free_port(0)
        self._redis = place.start(
            "redis",
            [
                *("redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""),
                *("--dir", str(place.run.path), "--appendonly", "yes", "--appendfsync", "everysec"),
                # A title would be written over the environment, which marks the bench's processes.
                *("--set-proc-title", "no"),
            ],
            {},
            place.run.path,
        )

        def ready() -> bool:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return True
            return False

        place.wait("Redis to be ready", ready, seconds=20, running=[self._redis])

    def _python(self) -> list[str]:
        return [str(BIN / "python"), "-m"]

    def _environ(self, place: Place, sizes: Sizes) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": "bench",
            "AWS_SECRET_ACCESS_KEY": "bench",
            "AWS_EC2_METADATA_DISABLED": "true",
            "BENCH_DATABASE_URL": self._url,
            "BENCH_SES_URL": place.provider.url,
            "BENCH_MAIL": str(place.mail),
            "BENCH_SLOTS": str(sizes.slots),
            "BENCH_REDIS_URL": f"redis://127.0.0.1:{self._redis_port}/0",
            # The default of twice the threads makes full consumers back off, for longer each time.
            "dramatiq_queue_prefetch": "2000",
        }

    def _cpu(self, place: Place) -> float:
        own = place.cpu_of_database()
        return own if self._redis is None else own + bench_cost.cpu_seconds([self._redis.pid])

    def _value(self, query: str) -> int:
        with psycopg.connect(self._url, autocommit=True) as connection:
            row = connection.execute(query).fetchone()  # pyright: ignore
        return int(row[0]) if row else 0


def senders(say: Callable[[str], None]) -> list[Sender]:
    """Give every peer that can be run here."""
    found: list[Sender] = []
    for peer in PEERS:
        if peer.redis and shutil.which("redis-server") is None:
            say(f"{peer.name} is left out: there is no redis-server (apt-get install redis-server)")
            continue
        found.append(Started(peer).sender())
    return found
