"""Runs a migration's plain SQL file, so that what runs is what a reviewer reads."""

from pathlib import Path

from alembic import op

SQL = Path(__file__).parent / "sql"


def run(name: str) -> None:
    """Execute one file of migrations/sql in the migration's transaction."""
    # The driver reads a lone % as a placeholder, also where there are no parameters.
    op.get_bind().exec_driver_sql((SQL / name).read_text().replace("%", "%%"))
