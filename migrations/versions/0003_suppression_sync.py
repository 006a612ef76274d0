"""What SES's own suppression list says of each suppression, and the syncs that looked."""

from migrations import plain_sql

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Create and extend the tables."""
    plain_sql.run("0003_suppression_sync.sql")
