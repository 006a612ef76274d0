"""Indexes by which retention finds what is old, and the figures count suppressions."""

from migrations import plain_sql

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    """Create the indexes."""
    plain_sql.run("0006_retention.sql")
