"""What is written down in several places agrees, and the house keeps its shape."""

import importlib
import re
import tomllib
from pathlib import Path

import pytest

from mail_service.domain import events, outcomes, states, suppression
from mail_service.domain.states import TRANSITIONS, EmailState
from mail_service.settings import Settings
from mail_service.store.session import ENUMS
from tests.conftest import Sql

ROOT = Path(__file__).parents[1]
PACKAGES = ("mail_service", "actors", "api", "migrations")
ROLES = {
    "utils",
    "util",
    "helpers",
    "helper",
    "common",
    "manager",
    "base",
    "misc",
    "service",
    "handler",
}


def sources() -> list[Path]:
    return [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]


def test_the_drawing_and_the_table_have_the_same_edges() -> None:
    drawn = re.findall(
        r"^    (\w+) --> (\w+):", (ROOT / "docs" / "states.md").read_text(), re.MULTILINE
    )
    assert sorted(drawn) == sorted(
        (a.value, b.value) for a, ends in TRANSITIONS.items() for b in ends
    )


def test_every_state_has_its_row_of_edges() -> None:
    assert set(TRANSITIONS) == set(EmailState)


@pytest.mark.parametrize("name", sorted(ENUMS))
def test_labels_in_the_database_are_the_members_in_order(sql: Sql, name: str) -> None:
    rows = sql(
        "SELECT enumlabel AS label FROM pg_enum WHERE enumtypid = %s::regtype ORDER BY enumsortorder",
        f"mail_service.{name}",
    )
    assert [row["label"] for row in rows] == [member.value for member in ENUMS[name]]


def test_every_enum_of_the_domain_that_is_stored_is_registered() -> None:
    stored = {
        states.EmailState,
        states.AttemptState,
        states.OnAmbiguous,
        events.EventKind,
        events.EventStatus,
        suppression.SuppressionReason,
        suppression.SesListState,
        outcomes.HoldScope,
    }
    assert stored == set(ENUMS.values())


@pytest.mark.parametrize("path", sources(), ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_are_short_and_named_by_topic(path: Path) -> None:
    assert path.stem not in ROLES
    lines = len(path.read_text().splitlines())
    assert lines <= 320, f"{lines} lines: find a better cut"


def test_the_procfile_names_what_exists() -> None:
    lines = dict(line.split(": ", 1) for line in (ROOT / "Procfile").read_text().splitlines())
    assert lines == {
        "release": "mail-service migrate",
        "web": "gunicorn api.wsgi:application",
        "worker": "mail-service worker",
        "clock": "mail-service clock",
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, function = project["scripts"]["mail-service"].split(":")
    assert callable(getattr(importlib.import_module(module), function))


def test_every_setting_says_what_is_expected() -> None:
    assert [name for name, field in Settings.model_fields.items() if not field.description] == []


def test_the_lock_names_no_registry_and_pins_every_hash() -> None:
    for name in ("requirements.txt", "requirements-dev.txt"):
        text = (ROOT / name).read_text()
        assert "://" not in text
        assert text.count("==") <= text.count("--hash=sha256:")


def test_every_promise_names_tests_that_exist() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text()
    written = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    rows = dict(re.findall(r"^\| ([SL]\d+) \|(.*)$", page, re.MULTILINE))
    assert {f"S{n}" for n in range(1, 21)} | {f"L{n}" for n in range(1, 9)} == set(rows)
    named = {promise: re.findall(r"`(test_\w+)`", row) for promise, row in rows.items()}
    assert all(named.values())
    assert {name for names in named.values() for name in names} - written == set()
