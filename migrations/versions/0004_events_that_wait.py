"""Shares of payload for events that found no call, and an index to find those events by."""

from migrations import plain_sql

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create and extend the tables."""
    plain_sql.run("0004_events_that_wait.sql")
