"""Holds, lanes, the shared rate, and what decisions need."""

from migrations import plain_sql

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Create and extend the tables."""
    plain_sql.run("0002_doubt_and_holds.sql")
