"""Where the chaos plays: everything a process of its own, the database behind a proxy that goes wrong."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psycopg
import urllib3
from psycopg.rows import dict_row

from mail_service.cli.embedded_postgres import EmbeddedPostgres
from tests.campaign.stage import CallLog
from tests.campaign.stage import Stage as Campaign
from tests.chaos.notes import NOTES, ROLE
from tests.chaos.proxy import Proxy
from tests.journeys.programs import ROOT, Program, free_port, until
from tests.journeys.town import Processes

SLOTS = ("a", "b", "c")
CONNECTIONS = 20
PASSWORD = "canary-password-of-the-product-s-role"

SETTINGS = {
    "SES_CONNECT_TIMEOUT": "1",
    "SES_READ_TIMEOUT": "2",
    "LEASE_SECONDS": "6",
    "RECONCILE_AFTER_SECONDS": "9",  # the least: lease and one call
    "SEND_CONCURRENCY": "4",
    "SWEEP_SECONDS": "1",
    "RETRY_BASE_SECONDS": "0.5",
    "RETRY_CAP_SECONDS": "3",
    "WEB_CONCURRENCY": "2",
}
SKEW = Path(__file__).parent / "skew"
AHEAD = ("0", "900", "-900")
LEASE = float(SETTINGS["LEASE_SECONDS"])
SWEEP = float(SETTINGS["SWEEP_SECONDS"])
SLOW_SECONDS = 1.5


class Stage(Campaign):
    """Everything that runs. ``source`` may be a patched copy of the product; the world never is."""

    def __init__(self, directory: Path, seed: int, source: Path = ROOT, *, calm: bool) -> None:
        self._stack = ExitStack()
        self.replaced: dict[str, list[tuple[float, Program]]] = defaultdict(list)
        """When the clock and the worker of each slot were started again."""
        self.ahead: Counter[str] = Counter()
        """How many workers had which clock."""
        try:
            self._build(directory, seed, source, calm=calm)
        except BaseException:
            self._stack.close()
            raise

    def _build(self, directory: Path, seed: int, source: Path, *, calm: bool) -> None:
        self.postgres = self._stack.enter_context(
            EmbeddedPostgres(
                tcp=True,
                # Commit times, so that what was committed before what is known and not guessed.
                settings={"track_commit_timestamp": "on"},
            )
        )
        url = self.postgres.create_database("chaos")
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}' CONNECTION LIMIT {CONNECTIONS};"
                f"ALTER DATABASE chaos OWNER TO {ROLE}"
            )
        self.proxy = self._stack.enter_context(Proxy(self.postgres.port, seed))
        product = (
            f"postgresql://{ROLE}:{PASSWORD}@127.0.0.1:{self.proxy.port}/chaos?sslmode=disable"
        )
        port = free_port()
        self.sandbox_url = f"http://127.0.0.1:{port}"
        self.processes = Processes(
            url=url,
            sandbox_url=self.sandbox_url,
            directory=directory,
            marker=self.postgres.run.marker,
            settings=SETTINGS | {"DATABASE_URL": product, "PYTHONPATH": str(source)},
            source=source,
            port=free_port(),
        )
        self.processes.canaries["database password"] = PASSWORD
        self._stack.callback(self.processes.stop)
        self.refuse_other_code()
        self.calls = CallLog(directory / "ses.log")
        self.directory = directory
        self._deliveries = directory / "sns.log"
        self._pool = urllib3.PoolManager(retries=False, timeout=5)
        self._stack.callback(self._pool.clear)
        command = [sys.executable, "-m", "tests.chaos.world", "--port", str(port)]
        command += ["--webhook", self.processes.webhook, "--seed", str(seed)]
        command += ["--directory", str(directory), *(["--calm"] if calm else [])]
        environment = {**self.postgres.run.marker, "PYTHONPATH": str(ROOT)}
        self.sandbox = Program("world", command, environment, directory / "world.log", ROOT)
        self._stack.callback(self.sandbox.kill9)
        self.processes.release()
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(NOTES)
        self.web = self.processes.start("web")
        self.workers: dict[str, Program] = {}
        for slot in SLOTS:
            self.replace_worker(slot)
        self.clock = self.processes.start("clock")
        self.processes.wait_ready(self.web, 40)
        self.knobs(slow_seconds=SLOW_SECONDS)
        self.knobs(delivery_retries=100, delivery_retry_seconds=0.5, delivery_timeout_seconds=15)
        until(self._confirmed, "the webhook has confirmed", 30, explain=self.processes.tails)

    def start_worker(self) -> Program:
        """Start a worker whose claims can be told from the others'; of three, two have wrong clocks."""
        number = sum(program.name.startswith("worker") for program in self.processes.programs)
        name = f"worker-{number}"
        environment = self.processes.environment
        ahead = AHEAD[number % len(AHEAD)]
        self.ahead[ahead] += 1
        worker = self.processes.start(
            "worker",
            DATABASE_URL=f"{environment['DATABASE_URL']}&options=-c%20campaign.worker%3D{name}",
            PYTHONPATH=f"{SKEW}{os.pathsep}{environment['PYTHONPATH']}",
            CHAOS_CLOCK_AHEAD=ahead,
        )
        worker.name = name
        return worker

    def refuse_other_code(self) -> None:
        """Ask a process like all others which code it runs; another tree than asked for is an error."""
        asked = "import mail_service, api, actors; print(mail_service.__file__, api.__file__)"
        # With the bare path that programs get, so that nothing of this process helps.
        said = subprocess.run(
            [sys.executable, "-c", asked],
            env={"PATH": os.defpath, **self.processes.environment},
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        assert len(said) == 2, said
        assert all(Path(file).is_relative_to(self.processes.source) for file in said), said

    def world(self, **orders: object) -> None:
        """Change the world itself."""
        body = json.dumps(orders).encode()
        answer = self._pool.request("POST", f"{self.sandbox_url}/_world", body=body)
        assert answer.status == 200, answer.data

    def living(self) -> list[Program]:
        """Every process of the product that should be there."""
        return [self.web, self.clock, *self.workers.values()]

    def replace_clock(self) -> None:
        """Start the clock again."""
        self.clock = self.processes.start("clock")
        self.replaced["clock"].append((time.time(), self.clock))

    def replace_worker(self, slot: str) -> None:
        """Start a worker in the place of one that is gone."""
        super().replace_worker(slot)
        self.replaced[slot].append((time.time(), self.workers[slot]))

    def revive(self) -> list[str]:
        """Start again what has ended by itself, as a platform does; gives their last words."""
        ended: list[str] = []
        for slot, worker in self.workers.items():
            if not worker.running:
                ended.append(worker.tail())
                self.replace_worker(slot)
        if not self.web.running:
            ended.append(self.web.tail())
            self.replace_web()
        if not self.clock.running:
            ended.append(self.clock.tail())
            self.replace_clock()
        return ended

    def sql(self, query: str, *params: Any) -> list[dict[str, Any]]:
        """Ask the database, around the proxy."""
        return self.processes.sql(query, *params)

    @contextmanager
    def snapshot(self) -> Generator[Callable[..., list[dict[str, Any]]]]:
        """Ask the database as it is at one moment, whoever else goes on writing."""
        with psycopg.connect(self.processes.url, row_factory=dict_row) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ

            def sql(query: str, *params: Any) -> list[dict[str, Any]]:
                return connection.execute(query, params or None).fetchall()  # pyright: ignore

            yield sql

    def open(self) -> int:
        """Count the emails that are pending, in a call, or waiting for policy to send them again."""
        return self.processes.value(
            "SELECT count(*) FROM mail_service.email_outbox WHERE state IN ('pending', 'sending')"
            " OR (state = 'ambiguous' AND on_ambiguous = 'resend' AND policy_note IS NULL)"
        )

    def purge(self) -> int:
        """Terminate every backend of the product; gives how many there were."""
        rows = self.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", ROLE
        )
        return len(rows)

    def kill_backend(self, chance: random.Random) -> None:
        """Kill one of the server's children; it ends all others and recovers. Returns when it has."""
        rows = self.sql("SELECT pid FROM pg_stat_activity WHERE usename = %s", ROLE)
        if rows:
            os.kill(chance.choice(rows)["pid"], signal.SIGKILL)

    def worker_behind(self, port: int) -> str:
        """Name the worker that is connected to the database from this port of the proxy's."""
        _, _, rest = self.proxy.options(port).partition("campaign.worker=")
        return rest.split(" ")[0]

    def answers(self) -> bool:
        """Whether the database can be asked."""
        try:
            return bool(self.sql("SELECT 1"))
        except psycopg.OperationalError:
            return False

    def habits(self) -> list[dict[str, Any]]:
        """Give what was drawn for the events of each accepted mail."""
        lines = (self.directory / "habits.log").read_bytes().splitlines()
        return [json.loads(line) for line in lines]

    def untold(self) -> int:
        """Count the events that are to come and were not answered 2xx yet, nor given up."""
        ended = {
            (row["provider_message_id"], row["event"])
            for row in self.deliveries()
            if row.get("event") and (row["status"] == 200 or not row["will_retry"])
        }
        return sum(
            (habit["message_id"], kind) not in ended
            for habit in self.habits()
            if not habit.get("drop_events")
            for kind in habit["kinds"]
        )
