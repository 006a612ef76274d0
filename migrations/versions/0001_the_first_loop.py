"""The tables of the first whole loop."""

from migrations import plain_sql

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    plain_sql.run("0001_the_first_loop.sql")
