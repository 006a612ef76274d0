"""The auditor: its own connection, the outside's record in temporary tables, and memory of what was.

What the provider saw and said, and what callers were answered, is kept beside the product's tables
so that each promise is one query over both. What must never change is remembered from step to step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, LiteralString
from uuid import UUID

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from mail_service.domain.states import TRANSITIONS
from tests.statemachine import promises

_OUTSIDE = """
CREATE TEMP TABLE seen (          -- every request the provider got
    tag text, accepted boolean, message_id text, known boolean, in_time boolean, open_work integer,
    contradicted boolean);     -- accepted, and answered like a refusal
CREATE TEMP TABLE told (          -- every event of the provider; taken: we answered 2xx
    sns_message_id text, tag text, kind text, address text, at timestamptz, by_tag boolean,
    stops boolean, honest boolean, taken boolean DEFAULT false);
CREATE TEMP TABLE answered (key text, payload text, email_id uuid);
CREATE TEMP TABLE drawn (from_state mail_service.email_state, to_state mail_service.email_state);
CREATE TEMP TABLE rules (lease double precision, call double precision, max_age double precision,
                         max_attempts integer, max_policy_resends integer, configuration_set text);
CREATE TEMP TABLE old_attempts (id uuid, state mail_service.attempt_state, message_id text);
CREATE TEMP TABLE old_suppressions (id uuid, reason mail_service.suppression_reason, active boolean);
CREATE TEMP TABLE old_probes (hold_id uuid, attempt_id uuid);
CREATE TEMP TABLE probes (hold_id uuid, attempt_id uuid);
CREATE TEMP TABLE released (id uuid);
"""

_FORGET = "TRUNCATE seen, told, answered, rules, old_attempts, old_suppressions, old_probes, probes, released"

_NOTE_PROBES = """
INSERT INTO probes
SELECT id, probe_attempt_id FROM mail_service.holds h WHERE probe_attempt_id IS NOT NULL
   AND NOT EXISTS (SELECT FROM probes p WHERE p.attempt_id = h.probe_attempt_id AND p.hold_id = h.id)
"""

_REMEMBER = """
WITH a AS (DELETE FROM old_attempts), s AS (DELETE FROM old_suppressions),
     p AS (DELETE FROM old_probes),
     b AS (INSERT INTO old_attempts
           SELECT id, state, provider_message_id FROM mail_service.send_attempts),
     c AS (INSERT INTO old_probes SELECT id, probe_attempt_id FROM mail_service.holds
           WHERE probe_attempt_id IS NOT NULL)
INSERT INTO old_suppressions
SELECT id, reason, released_at IS NULL FROM mail_service.suppressions
"""


_REACHED = """
SELECT from_state || ' to ' || to_state AS what FROM mail_service.email_transitions
WHERE from_state IS NOT NULL
UNION ALL SELECT 'attempt ' || state FROM mail_service.send_attempts
UNION ALL SELECT 'decision ' || decision || CASE decided_by WHEN 'policy' THEN ' by policy' ELSE '' END
          FROM mail_service.email_decisions
UNION ALL SELECT 'hold of ' || scope || COALESCE(' cleared by ' || cleared_by, '')
          FROM mail_service.holds
UNION ALL SELECT 'event ' || status FROM mail_service.ses_events
UNION ALL SELECT 'suppression for ' || reason || CASE WHEN released_at IS NULL THEN '' ELSE ' released' END
          FROM mail_service.suppressions
"""


_THERE = """
SELECT state::text AS what FROM mail_service.email_outbox
UNION SELECT 'hold' FROM mail_service.holds WHERE cleared_at IS NULL
UNION SELECT 'suppression' FROM mail_service.suppressions WHERE released_at IS NULL
"""


class Broken(AssertionError):
    """Promises were broken: their names, and what shows it."""

    def __init__(self, shown: Mapping[str, Sequence[object]]) -> None:
        super().__init__(
            "\n".join(f"{name}: {row}" for name, rows in shown.items() for row in rows)
        )
        self.promises = tuple(shown)


def require(promise: str, broken: object, what: str) -> None:
    """Raise Broken if there is anything that breaks this promise."""
    if broken:
        raise Broken({promise: [f"{what}: {broken}"]})


class Auditor:
    """Reads the product's tables as anybody could, and compares with what the outside knows."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.Connection[dict[str, Any]].connect(
            url, autocommit=True, row_factory=dict_row, application_name="auditor"
        )
        self._connection.execute(_OUTSIDE)
        self.reached: Counter[str] = Counter()
        self.there: set[str] = set()
        """What there is after the last step: states of emails, holds, suppressions."""
        edges = [(a.value, b.value) for a, ends in TRANSITIONS.items() for b in ends]
        with self._connection.cursor() as cursor:
            cursor.executemany("INSERT INTO drawn VALUES (%s, %s)", edges)

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __call__(self, query: LiteralString, *params: Any) -> list[dict[str, Any]]:
        """Run a query and give its rows."""
        cursor = self._connection.execute(query, params)
        return cursor.fetchall() if cursor.description else []

    def one(self, query: LiteralString, *params: Any) -> Any:
        """Give the only value."""
        (row,) = self(query, *params)
        (value,) = row.values()
        return value

    def begin(self, *statements: LiteralString, rules: tuple[Any, ...]) -> None:
        """Start an example: empty tables, nothing remembered."""
        for statement in (*statements, _FORGET):
            self._connection.execute(statement)
        self("INSERT INTO rules VALUES (%s, %s, %s, %s, %s, %s)", *rules)

    def note_probes(self) -> None:
        """Note which attempts are probes: a hold knows only the one under way."""
        self(_NOTE_PROBES)

    def check(self) -> None:
        """Raise Broken unless every promise holds; remember what must not change from now on."""
        broken = self(promises.ALL)
        if broken:
            shown: dict[str, list[object]] = {}
            for row in broken:
                shown.setdefault(row["promise"], []).append(row["shown_by"])
            raise Broken(shown)
        self(_REMEMBER)
        self.there = {row["what"] for row in self(_THERE)}

    def note_reached(self) -> None:
        """Count what this example came across."""
        self.reached.update(row["what"] for row in self(_REACHED))

    def run_all(self, statements: LiteralString) -> None:
        """Run several statements."""
        self._connection.execute(statements)

    def dump(self) -> dict[str, list[dict[str, Any]]]:
        """Give every table but the rejection counters."""
        tables = self(
            "SELECT table_name AS t FROM information_schema.tables "
            "WHERE table_schema = 'mail_service' AND table_type = 'BASE TABLE' "
            "AND table_name <> 'webhook_rejections'"
        )
        return {r["t"]: self._table(r["t"]) for r in tables}

    def _table(self, name: str) -> list[dict[str, Any]]:
        query = sql.SQL("TABLE {}").format(sql.Identifier("mail_service", name))
        return sorted(self._connection.execute(query).fetchall(), key=repr)

    def cut_everybody_off(self) -> None:
        """End every other connection to this database, as a failover does; returns when they are gone."""
        while self(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        ):
            pass

    def note_answer(self, key: str, payload: str, email_id: UUID) -> None:
        """Note that a caller got a 2xx for this key."""
        self("INSERT INTO answered VALUES (%s, %s, %s)", key, payload, email_id)
