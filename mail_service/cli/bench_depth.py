"""What a claim costs when much waits, when much is finished, and when old rows can't be cleaned up."""

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from threading import Event, Thread
from urllib.parse import urlsplit

import psycopg
from psycopg import sql

from actors.drain import Drain
from mail_service import wiring
from mail_service.cli.bench_cases import CannotMeasure, Case, Figures, percentile
from mail_service.cli.bench_database import BenchDatabase
from mail_service.cli.bench_formation import opened
from mail_service.cli.bench_place import BenchFailed, Place
from mail_service.cli.bench_sizes import Sizes
from mail_service.domain.outcomes import Accepted, Outcome
from mail_service.ports import OutgoingEmail
from mail_service.runtime import Runtime
from mail_service.settings import Process
from mail_service.store.pool import Database
from mail_service.workflows import dispatch

CLAIMS = "claim of 32"
CHURN = "churn"
SHALLOW = 1_000
WAVE = 32
_DEEP = "bench_deep"
_FEED = 2_000


class Depth:
    """Two databases side by side, claimed from in turn: a shallow one and a deep one."""

    def __init__(self) -> None:
        self._deep: BenchDatabase | None = None

    def shallow(self, place: Place, sizes: Sizes) -> Figures:
        """Claim where 1,000 are pending."""
        place.database.reset()
        with opened(place) as rt:
            place.database.fill(rt, max(SHALLOW, WAVE * sizes.waves))
        return _claims(place, place.database.url, sizes)

    def deep(self, place: Place, sizes: Sizes) -> Figures:
        """Claim where millions are pending, and more are finished."""
        database = self._deep or self._make(place, sizes)
        with _on(place, database.url) as rt:
            database.fill(rt, WAVE * sizes.waves)
        with database.connect() as connection:
            # Before all the others, or what is claimed would have neither content nor recipient.
            connection.execute(
                "UPDATE mail_service.email_outbox o SET next_attempt_at = o.next_attempt_at "
                "- interval '1 hour' FROM mail_service.email_payloads p "
                "WHERE p.email_id = o.id AND o.state = 'pending'"
            )
        return _claims(place, database.url, sizes)

    def _make(self, place: Place, sizes: Sizes) -> BenchDatabase:
        if place.postgres is not None:
            url = place.postgres.create_database(_DEEP)
        else:
            url = _create_beside(place.database)
            place.at_end(lambda: _drop_beside(place.database))
        database = BenchDatabase(url)
        database.prepare()
        with _on(place, url) as rt:
            database.reset()
            database.fill_narrow(rt, sizes.finished, finished=True)
            database.fill_narrow(rt, sizes.pending, finished=False)
        self._deep = database
        return database


def _create_beside(database: BenchDatabase) -> str:
    try:
        with database.connect() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(_DEEP)))
    except psycopg.Error as refused:
        raise CannotMeasure(f"no second database can be made: {type(refused).__name__}") from None
    return urlsplit(database.url)._replace(path=f"/{_DEEP}").geturl()


def _drop_beside(database: BenchDatabase) -> None:
    with database.connect() as connection:
        drop = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)")
        connection.execute(drop.format(sql.Identifier(_DEEP)))


@contextmanager
def _on(place: Place, url: str) -> Generator[Runtime]:
    """Give a runtime on a database, on the connection that a drain has."""
    db = Database(url, name="mail-service bench", size=1)
    settings = wiring.settings_for(place.environ, Process.WEB)
    db.open()
    try:
        yield wiring.runtime(settings, Process.WEB, db)
    finally:
        db.close()


def _claims(place: Place, url: str, sizes: Sizes) -> Figures:
    with _on(place, url) as rt:
        settings = wiring.settings_for({**place.environ, "DATABASE_URL": url}, Process.WEB)
        line = wiring.line(settings)
        ours = replace(rt, db=line)
        milliseconds: list[float] = []
        try:
            for _ in range(sizes.waves):
                begun = time.perf_counter()
                claims = dispatch.take(ours, WAVE)
                milliseconds.append((time.perf_counter() - begun) * 1000)
                if len(claims) != WAVE:
                    raise BenchFailed(f"a claim of {WAVE} gave {len(claims)}")
        finally:
            line.close()
    # The first ones meet a connection without plans.
    later = milliseconds[len(milliseconds) // 4 :]
    return {"p50 ms": percentile(later, 0.5), "p95 ms": percentile(later, 0.95)}


class _Instant:
    """A provider that takes everything at once, in this process: the loop and the database are left."""

    def __init__(self) -> None:
        self.taken = 0
        self._numbers = count(1)

    def send(self, email: OutgoingEmail) -> Outcome:
        self.taken = number = next(self._numbers)
        return Accepted(provider_message_id=f"churn-{number}")


def churn(place: Place, sizes: Sizes, *, old_snapshot: bool) -> Figures:
    """Run one drain for a while on a backlog that never ends."""
    place.database.reset()
    mailer = _Instant()
    with opened(place) as rt:
        place.database.fill(rt, _FEED)
        with _snapshot(place, old_snapshot):
            line = wiring.line(wiring.settings_for(place.environ, Process.WEB))
            drain = Drain(replace(rt, mailer=mailer), line)
            thread = Thread(target=drain.run, name="drain")
            over = Event()
            feeder = Thread(target=_feed, args=(place, rt, mailer, over), name="feeder")
            thread.start()
            feeder.start()
            try:
                time.sleep(1)
                began, first = time.monotonic(), mailer.taken
                time.sleep(sizes.churn_seconds)
                seconds, emails = time.monotonic() - began, mailer.taken - first
            finally:
                over.set()
                feeder.join()
                drain.stop()
                thread.join()
    return {"emails/s": emails / seconds, "emails": emails}


@contextmanager
def _snapshot(place: Place, wanted: bool) -> Generator[None]:
    """Hold a snapshot, as a report or a dump does: no row that dies from now on can be cleaned up."""
    if not wanted:
        yield
        return
    with psycopg.connect(place.database.url, application_name="bench") as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM mail_service.send_rate")
        yield
        connection.rollback()


def _feed(place: Place, rt: Runtime, mailer: _Instant, over: Event) -> None:
    """Keep between one and two thousand pending."""
    written = _FEED
    while not over.wait(0.005):
        if written - mailer.taken < _FEED // 2:
            place.database.fill(rt, _FEED // 2)
            written += _FEED // 2


def cases() -> list[Case]:
    """Give the cases; the deep database is made with the first that needs it."""
    depth = Depth()
    return [
        Case(group=CLAIMS, name="1,000 pending", measure=depth.shallow),
        Case(group=CLAIMS, name="deep", measure=depth.deep),
        Case(
            group=CHURN,
            name="no old snapshot",
            measure=lambda place, sizes: churn(place, sizes, old_snapshot=False),
        ),
        Case(
            group=CHURN,
            name="old snapshot open",
            measure=lambda place, sizes: churn(place, sizes, old_snapshot=True),
        ),
    ]
