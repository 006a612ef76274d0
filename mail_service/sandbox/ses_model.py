"""Routes and parameters of SES v2, read from botocore's own service model."""

import base64
import binascii
import functools
import json
import re
from dataclasses import dataclass
from typing import Any, Protocol, cast
from urllib.parse import parse_qs, unquote

from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.utils import parse_timestamp
from botocore.validate import ParamValidator

from mail_service.sandbox.ses_errors import bad_request

Params = dict[str, Any]


class Shape(Protocol):
    """What we use of a shape of botocore's."""

    name: str
    type_name: str
    metadata: dict[str, Any]
    serialization: dict[str, str]
    members: "dict[str, Shape]"
    member: "Shape"


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the model: its name and the shape of its input."""

    name: str
    shape: Shape


class SesModel:
    """Finds the operation of a request and reads its parameters."""

    def __init__(self) -> None:
        model: Any = ServiceModel(Loader().load_service_model("sesv2", "service-2"))
        self._fixed: dict[tuple[str, str], Operation] = {}
        self._labelled: list[tuple[str, re.Pattern[str], Operation]] = []
        self._validator: Any = ParamValidator()
        for name in model.operation_names:
            found: Any = model.operation_model(name)
            method: str = found.http["method"]
            uri: str = found.http["requestUri"].partition("?")[0]
            operation = Operation(name, found.input_shape)
            if "{" in uri:
                self._labelled.append((method, _uri_pattern(uri), operation))
            else:
                self._fixed[method, uri.rstrip("/")] = operation

    def find(self, method: str, path: str) -> tuple[Operation, dict[str, str]] | None:
        """The operation of a request with its URI labels; None when SES has no such route."""
        path = path.rstrip("/")
        if operation := self._fixed.get((method, path)):
            return operation, {}
        for wanted, pattern, labelled in self._labelled:
            if wanted == method and (match := pattern.fullmatch(path)):
                return labelled, {k: unquote(v) for k, v in match.groupdict().items()}
        return None

    def read(
        self, operation: Operation, labels: dict[str, str], query: str, payload: Params
    ) -> Params:
        """The parameters of a request by member name, blobs decoded, types not yet checked."""
        params = cast(Params, _decoded(operation.shape, payload))
        arguments = parse_qs(query, keep_blank_values=True) if query else {}
        for member, shape in operation.shape.members.items():
            location = shape.serialization.get("location")
            name = shape.serialization.get("name", member)
            if location == "uri" and name in labels:
                params[member] = labels[name]
            elif location == "querystring" and name in arguments:
                params[member] = _from_query(shape, arguments[name])
        return params

    def check(self, operation: Operation, params: Params) -> None:
        """Raise BadRequestException unless `params` fit the model."""
        report: Any = self._validator.validate(params, operation.shape)
        if report.has_errors():
            raise bad_request(f"1 validation error detected: {report.generate_report()}")
        _check_constraints(operation.shape, params, "")


@functools.cache
def ses_model() -> SesModel:
    """The model, loaded once per process; it never changes."""
    return SesModel()


def json_payload(body: bytes) -> Params:
    """The JSON object of a request's body; SerializationException-like refusal otherwise."""
    if not body:
        return {}
    try:
        payload = json.loads(body)
    except ValueError:
        raise bad_request("Could not parse request body into json") from None
    if not isinstance(payload, dict):
        raise bad_request("Unexpected token: the request body must be a JSON object")
    return cast(Params, payload)


def _uri_pattern(uri: str) -> re.Pattern[str]:
    pattern = re.sub(r"\\{(\w+)\\\+\\}", r"(?P<\1>.+)", re.escape(uri))
    return re.compile(re.sub(r"\\{(\w+)\\}", r"(?P<\1>[^/]+)", pattern))


def _decoded(shape: Shape, value: object) -> object:
    kind = shape.type_name
    if kind == "structure" and isinstance(value, dict):
        members = shape.members
        fields = cast(Params, value)
        return {
            name: _decoded(members[name], field) if name in members else field
            for name, field in fields.items()
            if field is not None
        }
    if kind == "list" and isinstance(value, list):
        return [_decoded(shape.member, item) for item in cast(list[object], value)]
    if kind == "blob" and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except binascii.Error:
            raise bad_request(f"Invalid base64 in {shape.name}") from None
    return value


def _from_query(shape: Shape, values: list[str]) -> object:
    if shape.type_name == "list":
        return values
    text = values[-1]
    try:
        if shape.type_name in {"integer", "long"}:
            return int(text)
        if shape.type_name == "timestamp":
            return parse_timestamp(text)
    except ValueError:
        raise bad_request(f"Invalid value for {shape.name}: {text}") from None
    return text == "true" if shape.type_name == "boolean" else text


def _check_constraints(shape: Shape, value: object, path: str) -> None:
    """Check what botocore leaves to the server: maximum length, patterns and enums."""
    kind = shape.type_name
    if kind == "structure":
        for name, field in cast(Params, value).items():
            _check_constraints(shape.members[name], field, f"{path}.{name}" if path else name)
        return
    if kind == "list":
        for number, item in enumerate(cast(list[object], value), 1):
            _check_constraints(shape.member, item, f"{path}.{number}.member")
    facts = shape.metadata
    if not facts or kind not in {"list", "string"}:
        return
    if "max" in facts and len(cast(str | list[object], value)) > facts["max"]:
        raise _violation(path, f"Member must have length less than or equal to {facts['max']}")
    if "enum" in facts and value not in facts["enum"]:
        allowed = ", ".join(facts["enum"])
        raise _violation(path, f"Member must satisfy enum value set: [{allowed}]")
    if "pattern" in facts and not re.fullmatch(facts["pattern"], cast(str, value)):
        rule = f"Member must satisfy regular expression pattern: {facts['pattern']}"
        raise _violation(path, rule)


def _violation(path: str, rule: str) -> Exception:
    return bad_request(
        f"1 validation error detected: Value at '{path[:1].lower()}{path[1:]}' failed to satisfy "
        f"constraint: {rule}"
    )
