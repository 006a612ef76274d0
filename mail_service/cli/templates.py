"""``mail-service templates``: what the mails say, looked at before anyone gets one."""

import json
import os
from pathlib import Path
from typing import Annotated, Any, cast

import typer
from rich.table import Table

from mail_service import wiring
from mail_service.cli import session
from mail_service.cli.session import AsJson
from mail_service.domain.catalogue import Catalogue
from mail_service.domain.content import Template
from mail_service.domain.strict_json import strict_loads
from mail_service.errors import InvalidFields, NotFound, SettingsError

app = typer.Typer(
    help="Templates: what the mails say. These commands need no database.", no_args_is_help=True
)


@app.command("list")
def list_(as_json: AsJson = False) -> None:
    """List the templates of TEMPLATE_DIR, or the bundled ones."""
    catalogue = _catalogue(None)
    found = [template for name in catalogue.names() if (template := catalogue.get(name))]
    rows = [_row(template) for template in found]
    if as_json:
        session.print_json(rows)
        return
    table = Table("name", "class", "when in doubt", "parts", "data it needs", "sample")
    for row in rows:
        table.add_row(
            row["name"],
            row["class"],
            row["on_ambiguous"],
            " ".join(row["parts"]),
            " ".join(row["required"]),
            "yes" if row["has_sample"] else "no",
        )
    session.console().print(table)


@app.command("preview")
def preview(
    name: Annotated[str, typer.Argument(help="Its full name, such as welcome-v1.")],
    data: Annotated[str | None, typer.Option(help="Data as JSON; @FILE reads a file.")] = None,
    sample: Annotated[
        bool, typer.Option("--sample", help="Use the template's own sample.")
    ] = False,
    html: Annotated[bool, typer.Option("--html", help="Print the HTML part alone.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the mail that a template makes of some data; without data, of its sample."""
    if data is not None and sample:
        raise typer.BadParameter("use --data or --sample, not both")
    catalogue = _catalogue(None)
    template = catalogue.get(name)
    if template is None:
        raise NotFound(
            f"there is no template {name}: expected one of {', '.join(catalogue.names())}"
        )
    if sample and template.sample is None:
        raise NotFound(f"{name} has no [sample] in its template.toml: use --data")
    given = _data(data) if data is not None else dict(template.sample or {})
    template.check(given)
    mail = template.render(given)
    if html and mail.html is None:
        raise NotFound(f"{name} has no HTML part")
    if as_json:
        session.print_json({"subject": mail.subject, "text": mail.text, "html": mail.html})
    elif html:
        typer.echo(mail.html)
    else:
        typer.echo(f"Subject: {mail.subject}\n")
        typer.echo(mail.text if mail.text is not None else mail.html)


@app.command("check")
def check(
    directory: Annotated[
        Path | None,
        typer.Argument(
            exists=True, file_okay=False, help="Directory of templates; else TEMPLATE_DIR."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check every template and name every problem. Exit 1 when there is one."""
    problems: list[str] = []
    names: tuple[str, ...] = ()
    try:
        names = _catalogue(directory).names()
    except SettingsError as found:
        problems = "; ".join(found.problems.values()).split("; ")
    if as_json:
        session.print_json({"templates": list(names), "problems": problems})
    elif problems:
        typer.echo("\n".join(problems))
    else:
        typer.echo(f"{len(names)} templates are fine: {', '.join(names)}")
    if problems:
        raise typer.Exit(1)


def _catalogue(directory: Path | None) -> Catalogue:
    """Load templates as the processes do. Raises SettingsError."""
    if directory is None and (named := os.environ.get("TEMPLATE_DIR")):
        directory = Path(named)
        if not directory.is_dir():
            raise SettingsError({"TEMPLATE_DIR": "expected a directory that exists"})
    return wiring.templates(directory)


def _data(text: str) -> dict[str, Any]:
    try:
        if text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        value = strict_loads(text)
    except (OSError, ValueError) as odd:
        raise InvalidFields({"data": f"expected JSON: {odd}"}) from odd
    if not isinstance(value, dict):
        raise InvalidFields({"data": 'expected a JSON object such as {"name": "Ada"}'})
    return cast("dict[str, Any]", value)


def _row(template: Template) -> dict[str, Any]:
    parts = {"text": template.text, "html": template.html}
    return {
        "name": template.name,
        "class": template.class_,
        "on_ambiguous": template.on_ambiguous,
        "parts": [part for part, source in parts.items() if source is not None],
        "required": json.loads(json.dumps((template.schema or {}).get("required", []))),
        "has_sample": template.sample is not None,
        "checksum": template.checksum,
    }
