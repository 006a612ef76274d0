"""Headers of a caller's own, beside the data of an email."""

from migrations import plain_sql

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    """Add a column, which rewrites nothing."""
    plain_sql.run("0008_headers.sql")
