"""Every template there is, read from its files and checked whole: all problems are told at once."""

import hashlib
import re
import tomllib
from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import TemplateError
from jinja2.nodes import Extends, FromImport, Import, Include
from jsonschema import Draft202012Validator, SchemaError

from mail_service.domain.content import PARTS, Template
from mail_service.domain.rendering import environment, leaves
from mail_service.errors import InvalidFields, SettingsError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,90}-v[1-9][0-9]{0,5}")


class Catalogue:
    """Every template there is, by name."""

    def __init__(self, directories: Mapping[str, Mapping[str, bytes]]) -> None:
        """Take each directory's files by name. Raises SettingsError that lists every problem."""
        problems = [] if directories else ["expected at least one directory such as welcome-v1"]
        loaded = (_load(name, files, problems) for name, files in sorted(directories.items()))
        self._templates = {template.name: template for template in loaded if template is not None}
        if problems:
            raise SettingsError({"TEMPLATE_DIR": "; ".join(problems)})

    def get(self, name: str) -> Template | None:
        """Give the template of this name, such as ``welcome-v1``."""
        return self._templates.get(name)

    def names(self) -> tuple[str, ...]:
        """Give all names, sorted."""
        return tuple(self._templates)


def _load(name: str, files: Mapping[str, bytes], problems: list[str]) -> Template | None:
    before = len(problems)

    def note(what: str) -> None:
        problems.append(f"{name}: {what}")

    if not _NAME.fullmatch(name):
        note("expected a name such as welcome-v1")
    if unknown := sorted(set(files) - {*PARTS, "template.toml"}):
        note(f"expected only {', '.join(PARTS)} and template.toml, not {', '.join(unknown)}")
    if "subject.txt" not in files:
        note("subject.txt is missing")
    if not files.keys() & {"text.txt", "html.html"}:
        note("expected text.txt, html.html or both")
    sources = {part: _source(part, files[part], note) for part in PARTS if part in files}
    options = _options(files.get("template.toml", b""), note)
    if len(problems) > before:
        return None
    template = Template(
        name=name,
        subject=sources["subject.txt"],
        text=sources.get("text.txt"),
        html=sources.get("html.html"),
        checksum=_checksum(files),
        on_ambiguous=options.get("on_ambiguous", "hold"),
        class_=options.get("class", "transactional"),
        schema=options.get("schema"),
        sample=options.get("sample"),
    )
    if template.sample is not None:
        try:
            template.check(template.sample)
        except InvalidFields as misfit:
            note(f"template.toml: [sample] does not fit: {misfit}")
    return template


def _checksum(files: Mapping[str, bytes]) -> str:
    """SHA-256 over names and bytes, each with its length, so that no two sets of files agree."""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        for piece in (name.encode(), content):
            digest.update(len(piece).to_bytes(8, "big") + piece)
    return digest.hexdigest()


def _source(part: str, content: bytes, note: Callable[[str], None]) -> str:
    try:
        source = content.decode("utf-8-sig").replace("\r\n", "\n")
        tree = environment(part).parse(source)
        environment(part).from_string(source)
    except UnicodeDecodeError:
        note(f"{part}: expected UTF-8")
        return ""
    except TemplateError as problem:
        line = getattr(problem, "lineno", None)
        note(f"{part}: {f'line {line}: ' if line else ''}{problem.message}")
        return ""
    if any(tree.find_all((Include, Import, FromImport, Extends))):
        # The checksum pins one directory; what it rendered must not come from another.
        note(f"{part}: include, import and extends are not available")
    if part == "subject.txt":
        source = source.rstrip("\n")
        if "\n" in source or not source.strip():
            note(f"{part}: expected exactly one line")
    return source


def _options(content: bytes, note: Callable[[str], None]) -> dict[str, Any]:
    try:
        options = tomllib.loads(content.decode("utf-8-sig"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
        note(f"template.toml: {problem}")
        return {}
    if unknown := sorted(set(options) - {"class", "on_ambiguous", "schema", "sample"}):
        note(f"template.toml: {', '.join(unknown)} is not known")
    if options.get("on_ambiguous", "hold") not in ("hold", "resend"):
        note('template.toml: expected on_ambiguous to be "hold" or "resend"')
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,40}", str(options.get("class", "transactional"))):
        note("template.toml: expected class to be a word such as transactional")
    for table in ("schema", "sample"):
        if not isinstance(options.get(table, {}), dict):
            note(f"template.toml: expected [{table}] to be a table")
            del options[table]
    _check_schema(options.get("schema", {}), note)
    return options


def _check_schema(schema: dict[str, Any], note: Callable[[str], None]) -> None:
    """Only references inside the schema: jsonschema 4.26 fetches others from the network."""
    try:
        # With the format checker, a pattern that is no regular expression shows here.
        Draft202012Validator.check_schema(
            schema, format_checker=Draft202012Validator.FORMAT_CHECKER
        )
    except SchemaError as problem:
        note(f"template.toml: [schema] {problem.message}")
        return
    known = {f"#/$defs/{name}" for name in schema.get("$defs", {})}
    for path, value in leaves(schema, "schema"):
        key = path.rpartition(".")[2]
        foreign = key in ("$id", "$dynamicRef", "$recursiveRef")
        if foreign or (key == "$ref" and value not in known):
            note(f"template.toml: {path}: expected a reference to #/$defs/NAME of this schema")
