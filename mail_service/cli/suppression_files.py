"""``mail-service suppressions import|export``: lists from elsewhere, and for elsewhere, as CSV."""

import csv
import dataclasses
import json
import os
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TextIO

import typer

from mail_service.cli import progress, session, shapes
from mail_service.cli.session import AsJson
from mail_service.domain.suppression_csv import COLUMNS, BadLine, written
from mail_service.errors import InvalidFields
from mail_service.store.suppressions import Suppression
from mail_service.workflows import suppression_files
from mail_service.workflows.suppression_files import Imported

_File = Annotated[Path, typer.Argument(metavar="FILE", help="A CSV file, or - for stdin.")]


def import_(
    file: _File,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would happen, and change nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Suppress every address of a CSV file with a header: address, reason, note, created_at.

    Only `address` is needed. Good lines are taken in, every bad line is told by its number and field, and
    the status is then 1: mend those lines and run it again, which is safe. Nothing is ever released or
    weakened. A release that came after a line's `created_at` stands; a line without one is a decision of
    now.
    """
    bad: list[BadLine] = []

    def report(line: BadLine) -> None:
        if as_json:
            bad.append(line)
        else:
            typer.echo(_told(line), err=True)

    with session.runtime() as rt, _lines(file) as (lines, count), progress.shown("lines") as tell:
        done = suppression_files.import_lines(
            rt,
            lines,
            by=session.actor(),
            dry_run=dry_run,
            report=report,
            tell=lambda line: tell(line, count),
        )
    if as_json:
        told = [dataclasses.asdict(line) for line in bad]
        session.print_json({**dataclasses.asdict(done), "dry_run": dry_run, "problems": told})
    else:
        typer.echo(_summary(done, dry_run))
    if done.bad:
        raise typer.Exit(1)


def export(
    file: Annotated[
        Path | None, typer.Option("--file", help="Write there, for you alone to read.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write the suppressions that stand as CSV, as `import` reads it. Erased addresses are left out."""
    left_out = shown = 0

    def rows(count: int) -> Iterator[Suppression]:
        nonlocal left_out, shown
        for row in suppression_files.export(rt):
            if row.address is None:
                left_out += 1
                continue
            shown += 1
            yield row
            if file is not None and shown % suppression_files.PAGE == 0:
                tell(shown, count)

    with (
        session.runtime() as rt,
        progress.shown("suppressions") as tell,
        _opened(file) as out,
    ):
        found = rows(suppression_files.active(rt))
        if as_json:
            _write_json(out, found)
        else:
            _write_csv(out, found)
    if file is not None:
        typer.echo(f"{shown} suppressions written to {file}", err=True)
    if left_out:
        typer.echo(f"{left_out} left out: their addresses were erased", err=True)


def _write_csv(out: TextIO, rows: Iterator[Suppression]) -> None:
    sheet = csv.writer(out, lineterminator="\n")
    sheet.writerow(COLUMNS)
    for row in rows:
        values = {
            "address": row.address or "",
            "reason": row.reason.value,
            "note": row.note or "",
            "created_at": shapes.plain(row.created_at),
        }
        sheet.writerow(written(values))


def _write_json(out: TextIO, rows: Iterator[Suppression]) -> None:
    before = "["
    for row in rows:
        out.write(f"{before}\n{json.dumps(shapes.plain(row), ensure_ascii=False)}")
        before = ","
    out.write("[]\n" if before == "[" else "\n]\n")


@contextmanager
def _opened(file: Path | None) -> Generator[TextIO]:
    if file is None:
        yield sys.stdout
        return
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    except OSError as fault:
        raise InvalidFields({"--file": f"can't be written: {fault.strerror}"}) from fault
    with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as out:
        yield out


@contextmanager
def _lines(file: Path) -> Generator[tuple[TextIO, int]]:
    """Open a file, and count its lines where that can be done without using it up."""
    source: int | Path = 0 if str(file) == "-" else file
    count = 0
    try:
        if file.is_file():
            with file.open("rb") as raw:
                while chunk := raw.read(1 << 20):
                    count += chunk.count(b"\n")
        # What is no UTF-8 is kept as surrogates: its line is told of, and the others are read.
        lines = open(  # noqa: SIM115 - closed below; stdin is left open
            source, encoding="utf-8-sig", errors="surrogateescape", newline="", closefd=bool(source)
        )
    except OSError as fault:
        raise InvalidFields({"FILE": f"can't be read: {fault.strerror}"}) from fault
    with lines:
        yield lines, count


def _told(bad: BadLine) -> str:
    where = f"line {bad.line}"
    if bad.last_line > bad.line:
        where = f"lines {bad.line} to {bad.last_line}"
    return f"{where}, {bad.field}: {bad.expected}"


def _summary(done: Imported, dry_run: bool) -> str:
    text = f"{done.added} added, {done.already} suppressed already"
    if done.covered:
        text += f", {done.covered} left out (released after they were listed)"
    if done.bad:
        text += f", {done.bad} bad"
    return f"dry run, nothing changed: {text}" if dry_run else text
