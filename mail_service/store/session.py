"""One connection of ours: its time limits, its zone, the enums it knows, and what it listens to."""

import select
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.rows import TupleRow
from psycopg.types.enum import EnumInfo, register_enum

from mail_service.domain.events import EventKind, EventStatus
from mail_service.domain.outcomes import HoldScope
from mail_service.domain.states import AttemptState, EmailState, OnAmbiguous
from mail_service.domain.suppression import SesListState, SuppressionReason
from mail_service.errors import SettingsError, Unavailable

ENUMS: Mapping[str, type[StrEnum]] = {
    "email_state": EmailState,
    "attempt_state": AttemptState,
    "ambiguity_policy": OnAmbiguous,
    "event_kind": EventKind,
    "event_status": EventStatus,
    "suppression_reason": SuppressionReason,
    "ses_list_state": SesListState,
    "hold_scope": HoldScope,
}
"""Native enums and the classes whose members are their labels, in the same order."""

CHANNEL = "mail_service_due"
"""Where the nudge is heard: NOTIFY without data, sent after mail was committed."""

NO_SCHEMA = "the schema is missing or old: run mail-service migrate"

# SNS waits 15 s for an answer, and callers hardly longer.
_SESSION = """
SET TIME ZONE 'UTC';
SET statement_timeout = '8s';
SET lock_timeout = '4s';
SET idle_in_transaction_session_timeout = '10s';
"""


def conninfo(url: str, name: str) -> str:
    """Give the connection string with our time limits: a dead peer is noticed within seconds.

    Raises SettingsError for a text that libpq can't read.
    """
    try:
        return make_conninfo(
            url,
            application_name=name,
            connect_timeout=5,
            keepalives_idle=5,
            keepalives_interval=2,
            keepalives_count=2,
            tcp_user_timeout=10000,
        )
    except psycopg.ProgrammingError:
        # libpq's text quotes the URL, and with it the password.
        problem = "expected a libpq URI, postgres://… or postgresql://…"
        raise SettingsError({"DATABASE_URL": problem}) from None


class Session(psycopg.Connection[TupleRow]):
    """A connection of ours: with time limits, in UTC, and with enums read as their classes."""

    _enums_known = False

    @staticmethod
    def limit(connection: psycopg.Connection[Any]) -> None:
        """Set what a new connection is bounded by."""
        connection.autocommit = True
        connection.execute(_SESSION)
        connection.autocommit = False

    def learn_enums(self) -> None:
        """Learn the enums, unless they are known. Raises Unavailable where the schema is not there.

        Not done while connecting: a pool would take a missing schema for a missing server.
        """
        if self._enums_known:
            return
        for name, members in ENUMS.items():
            info = EnumInfo.fetch(self, f"mail_service.{name}")
            if info is None:
                raise Unavailable(NO_SCHEMA)
            register_enum(info, self, members, mapping={m: m.value for m in members})
        self.commit()
        self._enums_known = True

    def has_word(self) -> bool:
        """Say whether something came that nobody read yet, were it the connection's end."""
        poll = select.poll()
        poll.register(self.fileno(), select.POLLIN)
        return bool(poll.poll(0))
