"""Versioned templates: what a mail says, checked when it is asked for and rendered when it goes.

A template is a directory ``NAME-vN`` with ``subject.txt``, ``text.txt`` and/or ``html.html``
(Jinja2) and an optional ``template.toml``. Templates are ours and trusted; data is the caller's and
is not: it never becomes template source, and what does not fit is refused, never repaired.
"""

import hashlib
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Literal, cast

from css_inline import CSSInliner
from jinja2 import StrictUndefined, TemplateError, TemplateRuntimeError, Undefined, UndefinedError
from jinja2 import Template as Compiled
from jinja2.exceptions import SecurityError
from jinja2.nodes import Extends, FromImport, Import, Include
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing
from jsonschema import Draft202012Validator, SchemaError

from mail_service.errors import InvalidFields, SettingsError

MAX_OUTPUT_BYTES: Final = 512 * 1024
MAX_SUBJECT: Final = 988  # a line of RFC 5322 holds 998 characters, "Subject: " among them
MAX_DEPTH: Final = 32  # of data; the renderer and the schema checker recurse

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,90}-v[1-9][0-9]{0,5}")
_PARTS: Final = ("subject.txt", "text.txt", "html.html")
_UNFIT = re.compile("[\x00\ud800-\udfff]")
# Controls, every kind of line end, and the encoded words of RFC 2047 that a reader would decode.
_UNFIT_IN_SUBJECT = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]|=\?[^\s?]+\?[bq]\?", re.I)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """One mail's content, ready for SES."""

    subject: str = field(repr=False)
    text: str | None = field(default=None, repr=False)
    html: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """One version of one mail. ``checksum`` pins every byte of its directory."""

    name: str
    subject: str = field(repr=False)
    text: str | None = field(default=None, repr=False)
    html: str | None = field(default=None, repr=False)
    checksum: str
    on_ambiguous: Literal["hold", "resend"] = "hold"
    class_: str = "transactional"
    schema: Mapping[str, Any] | None = field(default=None, repr=False)
    sample: Mapping[str, Any] | None = field(default=None, repr=False)
    _compiled: dict[str, Compiled] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compile. Raises jinja2.TemplateError where a source is no template."""
        sources = zip(_PARTS, (self.subject, self.text, self.html), strict=True)
        compiled = {p: _environment(p).from_string(s) for p, s in sources if s is not None}
        object.__setattr__(self, "_compiled", compiled)

    def check(self, data: Mapping[str, object]) -> None:
        """Raise InvalidFields unless this data fits the schema and renders, whole and now.

        The full render is the point: only it meets a variable that one branch alone needs.
        """
        plain = _plain(data)
        if self.schema is not None and (problems := _misfits(self.schema, plain)):
            raise InvalidFields(problems)
        self.render(plain)

    def render(self, data: Mapping[str, object]) -> Rendered:
        """Give the mail for this data; the same data always gives the same mail.

        Raises InvalidFields by names such as ``data.order.id``, without any of the data's text.
        """
        plain = _plain(data)
        parts = {part: _fill(template, plain) for part, template in self._compiled.items()}
        subject = parts["subject.txt"]
        if _UNFIT_IN_SUBJECT.search(subject):
            raise InvalidFields({_culprit(subject, plain): "expected one line without controls"})
        if not subject.strip() or len(subject) > MAX_SUBJECT:
            raise InvalidFields({"data": f"expected a subject of 1 to {MAX_SUBJECT} characters"})
        html = parts.get("html.html")
        if html is not None and "<style" in html:
            # After rendering, because it rewrites markup: 0.01 ms for the bundled mails (measured).
            html = _capped([_INLINER.inline(html)])
        return Rendered(subject=subject, text=parts.get("text.txt"), html=html)


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
    if unknown := sorted(set(files) - {*_PARTS, "template.toml"}):
        note(f"expected only {', '.join(_PARTS)} and template.toml, not {', '.join(unknown)}")
    if "subject.txt" not in files:
        note("subject.txt is missing")
    if not files.keys() & {"text.txt", "html.html"}:
        note("expected text.txt, html.html or both")
    sources = {part: _source(part, files[part], note) for part in _PARTS if part in files}
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
        tree = _environment(part).parse(source)
        _environment(part).from_string(source)
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
    for path, value in _leaves(schema, "schema"):
        key = path.rpartition(".")[2]
        foreign = key in ("$id", "$dynamicRef", "$recursiveRef")
        if foreign or (key == "$ref" and value not in known):
            note(f"template.toml: {path}: expected a reference to #/$defs/NAME of this schema")


def _leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Every value inside, outermost first, with its path."""
    yield path, value
    if isinstance(value, dict):
        for key, inner in cast("dict[str, object]", value).items():
            yield from _leaves(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[object]", value)):
            yield from _leaves(inner, f"{path}.{index}")


def _plain(data: Mapping[str, object]) -> dict[str, Any]:
    """Copy what is JSON and can be in a mail. Raises InvalidFields with every field that is not."""
    problems: dict[str, str] = {}

    def copy(value: object, path: str, depth: int) -> Any:  # noqa: ANN401 JSON
        if depth > MAX_DEPTH:
            problems[path] = f"expected at most {MAX_DEPTH} levels"
        elif isinstance(value, Mapping):
            pairs = cast("Mapping[object, object]", value)
            if all(isinstance(key, str) and not _UNFIT.search(key) for key in pairs):
                return {k: copy(v, f"{path}.{k}", depth + 1) for k, v in pairs.items()}
            problems[path] = "expected names that are text without NUL or lone surrogates"
        elif isinstance(value, list):
            items = enumerate(cast("list[object]", value))
            return [copy(item, f"{path}.{index}", depth + 1) for index, item in items]
        elif isinstance(value, str) and _UNFIT.search(value):
            problems[path] = "expected text without NUL or lone surrogates"
        elif isinstance(value, float) and not math.isfinite(value):
            problems[path] = "expected a finite number"
        elif not isinstance(value, str | int | float | None):
            problems[path] = "expected JSON"
        return cast("object", value)

    plain = copy(data, "data", 0)
    if problems:
        raise InvalidFields(problems)
    return cast("dict[str, Any]", plain)


def _misfits(schema: Mapping[str, Any], data: dict[str, Any]) -> dict[str, str]:
    """What the schema says against the data, by field and without the data's own text."""
    problems: dict[str, str] = {}
    for error in Draft202012Validator(schema).iter_errors(data):  # pyright: ignore[reportUnknownMemberType]
        path = ".".join(["data", *map(str, error.absolute_path)])
        rule, wanted = str(error.validator), error.validator_value
        there = cast("dict[str, object]", error.instance)
        if rule == "required":
            problems |= {f"{path}.{name}": "is missing" for name in wanted if name not in there}
        elif rule == "additionalProperties" and wanted is False:
            known = cast("dict[str, object]", error.schema).get("properties", {})
            extra = there.keys() - cast("dict[str, object]", known).keys()
            problems |= {f"{path}.{name}": "is not known" for name in sorted(extra)}
        else:
            shown = json.dumps(wanted, default=str)
            problems[path] = f"expected {rule} {shown}" if len(shown) < 100 else f"expected {rule}"
    return problems


class _MissingValue(UndefinedError):
    def __init__(self, of: object, name: object, message: str) -> None:
        super().__init__(message)
        self.of, self.name = of, name

    def path(self, data: dict[str, Any]) -> str:
        """The field's name: what it was looked up on is found again by identity."""
        if self.of is missing:
            return f"data.{self.name}"
        owner = next((path for path, value in _leaves(data, "data") if value is self.of), None)
        return "data" if owner is None else f"{owner}.{self.name}"


class _Missing(StrictUndefined):
    def __init__(
        self,
        hint: str | None = None,
        obj: object = missing,
        name: str | None = None,
        exc: type[TemplateRuntimeError] = UndefinedError,
    ) -> None:
        if exc is UndefinedError:
            # Called with the message, and what it gives is raised: a class by habit, not by need.
            exc = cast("type[TemplateRuntimeError]", partial(_MissingValue, obj, name))
        super().__init__(hint, obj, name, exc)


def _finalize(value: object) -> object:
    """Whatever is printed passes here: "None" or "<bound method ...>" in a mail is never meant."""
    if not isinstance(value, Undefined) and (value is None or callable(value)):
        raise InvalidFields({"data": "expected a value for what the template prints, not null"})
    return value


class _Environment(ImmutableSandboxedEnvironment):
    """A sandbox as second wall. No loader, no filters that guess, no output out of nothing."""

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self, *, autoescape: bool) -> None:
        super().__init__(
            autoescape=autoescape,
            undefined=_Missing,
            finalize=_finalize,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
        )
        del self.globals["lipsum"], self.filters["random"]  # not the same mail twice

    def getattr(self, obj: Any, attribute: str) -> Any:  # noqa: ANN401 as in jinja2
        """Take ``order.items`` as the caller's field, present or missing, not as dict's method."""
        return (
            self.getitem(obj, attribute)
            if isinstance(obj, dict)
            else super().getattr(obj, attribute)
        )

    def getitem(self, obj: Any, argument: Any) -> Any:  # noqa: ANN401 as in jinja2
        """The same for ``order["items"]``."""
        if isinstance(obj, dict) and argument not in obj:
            return self.undefined(obj=obj, name=argument)
        return super().getitem(obj, argument)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401
        """Refuse to make a large thing of two small ones: the data may hold the factor."""
        large = any(
            isinstance(thing, str | list)
            and isinstance(factor, int)
            and len(cast("str", thing)) * factor > MAX_OUTPUT_BYTES
            for thing, factor in ((left, right), (right, left))
        )
        if operator == "**" or large:
            raise SecurityError("too large")
        return super().call_binop(context, operator, left, right)


_PLAIN = _Environment(autoescape=False)
_MARKUP = _Environment(autoescape=True)
# Never a stylesheet from elsewhere. Style elements stay, for dark mode and narrow screens.
_INLINER = CSSInliner(keep_style_tags=True, load_remote_stylesheets=False)


def _environment(part: str) -> _Environment:
    return _MARKUP if part == "html.html" else _PLAIN


def _fill(template: Compiled, data: dict[str, Any]) -> str:
    try:
        return _capped(template.generate(data))
    except _MissingValue as absent:
        raise InvalidFields({absent.path(data): "is missing"}) from None
    except InvalidFields:
        raise
    except Exception as problem:
        # Without its text, and without a chain into a log: both may quote the data.
        what = f"expected data this template can be rendered with ({type(problem).__name__})"
        raise InvalidFields({"data": what}) from None


def _capped(pieces: Iterator[str] | list[str]) -> str:
    taken: list[str] = []
    size = 0
    for piece in pieces:
        size += len(piece.encode())
        if size > MAX_OUTPUT_BYTES:
            raise InvalidFields({"data": f"expected a mail of at most {MAX_OUTPUT_BYTES} bytes"})
        taken.append(piece)
    return "".join(taken)


def _culprit(subject: str, data: dict[str, Any]) -> str:
    """The one field that brought what a subject must not hold, or "data" when that is not clear."""
    texts = [(path, value) for path, value in _leaves(data, "data") if isinstance(value, str)]
    unfit = [(path, value) for path, value in texts if _UNFIT_IN_SUBJECT.search(value)]
    found = [path for path, value in unfit if value in subject] or [path for path, _ in unfit]
    return found[0] if len(found) == 1 else "data"
