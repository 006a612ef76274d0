"""Filling a template with data that is not trusted: what fits is rendered, the rest is refused by name.

The sandbox of Jinja2 is a second wall, not the first: templates are ours, and data never becomes
template source.
"""

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, cast

from css_inline import CSSInliner
from jinja2 import StrictUndefined, TemplateRuntimeError, Undefined, UndefinedError
from jinja2 import Template as Compiled
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import missing
from jsonschema import Draft202012Validator

from mail_service.domain.headers import ENCODED_WORD
from mail_service.errors import InvalidFields

MAX_OUTPUT_BYTES: Final = 512 * 1024
MAX_DEPTH: Final = 32  # of data; the renderer and the schema checker recurse

_UNFIT = re.compile("[\x00\ud800-\udfff]")
# Controls, every kind of line end, and the encoded words of RFC 2047 that a reader would decode.
UNFIT_IN_SUBJECT = re.compile(
    rf"[\x00-\x1f\x7f-\x9f\u2028\u2029]|{ENCODED_WORD.pattern}", ENCODED_WORD.flags
)


def leaves(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Every value inside, outermost first, with its path."""
    yield path, value
    if isinstance(value, dict):
        for key, inner in cast("dict[str, object]", value).items():
            yield from leaves(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(cast("list[object]", value)):
            yield from leaves(inner, f"{path}.{index}")


def plain_data(data: Mapping[str, object]) -> dict[str, Any]:
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


def misfits(schema: Mapping[str, Any], data: dict[str, Any]) -> dict[str, str]:
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
        owner = next((path for path, value in leaves(data, "data") if value is self.of), None)
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
INLINER = CSSInliner(keep_style_tags=True, load_remote_stylesheets=False)


def environment(part: str) -> _Environment:
    return _MARKUP if part == "html.html" else _PLAIN


def compiled(part: str, source: str) -> Compiled:
    """Compile one part. Raises jinja2.TemplateError where the source is no template."""
    template = environment(part).from_string(source)
    # Jinja2 copies the globals for each rendering, which is half of its cost while they are a ChainMap.
    template.globals = dict(template.globals)
    return template


def fill(template: Compiled, data: dict[str, Any]) -> str:
    try:
        return capped(template.generate(data))
    except _MissingValue as absent:
        raise InvalidFields({absent.path(data): "is missing"}) from None
    except InvalidFields:
        raise
    except Exception as problem:
        # Without its text, and without a chain into a log: both may quote the data.
        what = f"expected data this template can be rendered with ({type(problem).__name__})"
        raise InvalidFields({"data": what}) from None


def capped(pieces: Iterator[str] | list[str]) -> str:
    taken: list[str] = []
    size = 0
    for piece in pieces:
        size += len(piece.encode())
        if size > MAX_OUTPUT_BYTES:
            raise InvalidFields({"data": f"expected a mail of at most {MAX_OUTPUT_BYTES} bytes"})
        taken.append(piece)
    return "".join(taken)


def culprit(subject: str, data: dict[str, Any]) -> str:
    """The one field that brought what a subject must not hold, or "data" when that is not clear."""
    texts = [(path, value) for path, value in leaves(data, "data") if isinstance(value, str)]
    unfit = [(path, value) for path, value in texts if UNFIT_IN_SUBJECT.search(value)]
    found = [path for path, value in unfit if value in subject] or [path for path, _ in unfit]
    return found[0] if len(found) == 1 else "data"
