"""``mail-service keys``: who may call the API."""

import json
import uuid
from typing import Annotated

import typer
from rich.table import Table

from mail_service.cli import session
from mail_service.cli.session import AsJson, database
from mail_service.workflows import operate

app = typer.Typer(help="API keys: who may call, and what they may do.", no_args_is_help=True)


@app.command("create")
def create(
    name: Annotated[str, typer.Option(help="Whose key it is.")],
    scope: Annotated[list[str], typer.Option(help="send, read or operate; repeatable.")],
    as_json: AsJson = False,
) -> None:
    """Make a key and print it, once, alone on the last line."""
    with database() as db:
        made = operate.create_key(db, key_id=uuid.uuid4(), name=name, scopes=tuple(scope))
    if as_json:
        typer.echo(json.dumps({"id": str(made.id), "name": name, "scopes": scope, "key": made.key}))
        return
    typer.echo(f"key {made.id} for {name} ({', '.join(scope)}). It is shown this once:", err=True)
    typer.echo(made.key)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the keys; what is shown opens nothing."""
    with database() as db:
        found = operate.list_keys(db)
    if as_json:
        rows = [
            {
                "id": str(key.id),
                "name": key.name,
                "scopes": key.scopes,
                "created_at": key.created_at.isoformat(),
                "revoked_at": key.revoked_at.isoformat() if key.revoked_at else None,
            }
            for key in found
        ]
        typer.echo(json.dumps(rows))
        return
    table = Table("id", "name", "scopes", "created", "revoked")
    for key in found:
        table.add_row(
            str(key.id),
            key.name,
            " ".join(key.scopes),
            f"{key.created_at:%Y-%m-%d %H:%M}",
            f"{key.revoked_at:%Y-%m-%d %H:%M}" if key.revoked_at else "",
        )
    session.console().print(table)


@app.command("revoke")
def revoke(key_id: uuid.UUID) -> None:
    """Take a key out of use at once."""
    with database() as db:
        operate.revoke_key(db, key_id)
    typer.echo(f"key {key_id} is out of use")
