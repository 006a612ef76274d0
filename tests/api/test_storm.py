"""A storm of events at the real server: no effect twice, everything answered, sign-ups go on meanwhile."""

from collections.abc import Iterator

import pytest
import structlog

from benchmarks.storm_parts import Storm
from benchmarks.storm_web import Weather, Web
from mail_service.cli import session
from mail_service.cli.bench_cases import Figures
from mail_service.cli.bench_formation import web
from mail_service.cli.bench_place import Place
from mail_service.cli.embedded_postgres import EmbeddedPostgres

WEATHER = Weather(emails=60, redeliveries=600, connections=24, signups=20, probes=5, locked=6)
SNS_WAITS_MS = 15_000


@pytest.fixture(scope="module")
def stormy(postgres: EmbeddedPostgres) -> Iterator[tuple[Storm, Web]]:
    """Emails that were submitted, the events about them, and a server that has seen none of them."""
    session.quiet_logs()
    url = postgres.create_database("storm")
    try:
        with Place(url) as place:
            storm = Storm(place, WEATHER)
            with web(place) as (running, key):
                yield storm, Web(place=place, running=running, weather=WEATHER, key=key)
    finally:
        structlog.reset_defaults()


@pytest.fixture(scope="module")
def first(stormy: tuple[Storm, Web]) -> Figures:
    """What came of bringing every event for the first time."""
    storm, server = stormy
    storm.new(server, ignore)
    return storm.more(server, ignore)


def ignore(done: int, total: int) -> None:
    """Nobody watches the progress."""


def everybody_was_answered(figures: Figures, deliveries: int) -> None:
    assert figures["webhook 2xx"] == deliveries
    assert figures["intake 2xx"] > 0
    assert figures["readyz 2xx"] > 0
    assert {name: n for name, n in figures.items() if name.endswith(("503", "other")) and n} == {}
    longest = {name: ms for name, ms in figures.items() if name.endswith("longest ms")}
    assert max(longest.values()) < SNS_WAITS_MS


def test_new_events_are_stored_once_and_have_their_effect_once(
    stormy: tuple[Storm, Web], first: Figures
):
    everybody_was_answered(first, len(stormy[0].bodies) - WEATHER.emails)
    assert first["rows stored"] == len(stormy[0].bodies)
    assert (first["duplicates"], first["missing"]) == (0, 0)


def test_six_hundred_redeliveries_write_no_row_and_keep_nobody_out(
    stormy: tuple[Storm, Web], first: Figures
):
    storm, server = stormy
    figures = storm.again(server, ignore)
    everybody_was_answered(figures, WEATHER.redeliveries)
    assert figures["rows stored"] == 0
    assert (figures["duplicates"], figures["missing"]) == (0, 0)


def test_redeliveries_about_emails_whose_rows_are_held_are_answered_and_write_no_row(
    stormy: tuple[Storm, Web], first: Figures
):
    storm, server = stormy
    figures = storm.again_while_locked(server, ignore)
    everybody_was_answered(figures, WEATHER.redeliveries // 20)
    assert figures["rows stored"] == 0
    assert (figures["duplicates"], figures["missing"]) == (0, 0)


def test_new_events_about_emails_whose_rows_are_held_are_taken_and_keep_nobody_out(
    stormy: tuple[Storm, Web], first: Figures
):
    storm, server = stormy
    figures = storm.new_while_locked(server, ignore)
    everybody_was_answered(figures, WEATHER.emails)
    assert (figures["duplicates"], figures["missing"]) == (0, 0)


def test_events_that_would_end_a_doubt_about_held_emails_come_again_and_keep_nobody_out(
    stormy: tuple[Storm, Web], first: Figures
):
    storm, server = stormy
    figures = dict(storm.proofs_while_locked(server, ignore))
    later = figures.pop("webhook 503")
    assert 0 < later <= WEATHER.locked
    everybody_was_answered(figures, WEATHER.emails - int(later))
    assert (figures["duplicates"], figures["missing"]) == (0, 0)
