"""The list of emails in one state, found by an index alone."""

from migrations import plain_sql

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    """Build the index anew."""
    plain_sql.run("0007_list_of_emails.sql")
