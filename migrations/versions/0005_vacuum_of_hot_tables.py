"""How often the tables that every email writes are vacuumed."""

from migrations import plain_sql

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Set what autovacuum goes by."""
    plain_sql.run("0005_vacuum_of_hot_tables.sql")
