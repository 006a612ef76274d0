"""The query protocol of SNS: parameters in a form, answers in XML."""

import re
from dataclasses import dataclass
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from mail_service.sandbox.connection import Request, Response

_NAMESPACE = "http://sns.amazonaws.com/doc/2010-03-31/"
_ENTRY = re.compile(r"(\w+)\.entry\.(\d+)\.(key|value)")
_XML = "text/xml"

Tree = dict[str, "str | Tree | list[Tree]"]


class SnsError(Exception):
    """An error answer of SNS."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


def invalid_parameter(message: str) -> SnsError:
    """InvalidParameter, which SNS answers with 400."""
    return SnsError(400, "InvalidParameter", f"Invalid parameter: {message}")


def missing(what: str) -> SnsError:
    """NotFound, which SNS answers with 404."""
    return SnsError(404, "NotFound", f"{what} does not exist")


@dataclass(frozen=True, slots=True)
class Query:
    """The parameters of one call."""

    fields: dict[str, str]
    signed: bool

    @classmethod
    def of(cls, request: Request) -> "Query":
        """The parameters of a request, from its form or from its address."""
        text = request.body.decode("utf-8", "replace") if request.body else request.query
        signed = "authorization" in request.headers
        return cls(dict(parse_qsl(text, keep_blank_values=True)), signed)

    def get(self, name: str, default: str = "") -> str:
        """A parameter, or `default` when it was not sent."""
        return self.fields.get(name, default)

    def require(self, name: str) -> str:
        """A parameter that must have been sent."""
        value = self.fields.get(name, "")
        if not value:
            raise invalid_parameter(f"{name} Reason: no value for required parameter")
        return value

    def map(self, name: str) -> dict[str, str]:
        """A parameter that is a map, sent as numbered entries."""
        parts: dict[str, dict[str, str]] = {}
        for field, value in self.fields.items():
            match = _ENTRY.fullmatch(field)
            if match and match[1] == name:
                parts.setdefault(match[2], {})[match[3]] = value
        return {entry["key"]: entry.get("value", "") for entry in parts.values() if "key" in entry}


def entries(attributes: dict[str, str]) -> Tree:
    """A map as SNS answers it."""
    return {"entry": [{"key": key, "value": value} for key, value in attributes.items()]}


def answer(action: str, result: Tree | None, request_id: str) -> Response:
    """The XML answer of an action; `result` is None for actions that return nothing."""
    inner = "" if result is None else f"<{action}Result>{_xml(result)}</{action}Result>"
    return _document(
        200,
        f"<{action}Response xmlns='{_NAMESPACE}'>{inner}<ResponseMetadata><RequestId>{request_id}"
        f"</RequestId></ResponseMetadata></{action}Response>",
        request_id,
    )


def error_answer(error: SnsError, request_id: str) -> Response:
    """The XML answer for an error."""
    side = "Sender" if error.status < 500 else "Receiver"
    return _document(
        error.status,
        f"<ErrorResponse xmlns='{_NAMESPACE}'><Error><Type>{side}</Type><Code>{error.code}</Code>"
        f"<Message>{escape(str(error))}</Message></Error><RequestId>{request_id}</RequestId>"
        "</ErrorResponse>",
        request_id,
    )


def _document(status: int, text: str, request_id: str) -> Response:
    return Response(status, text.encode(), _XML, {"x-amzn-RequestId": request_id})


def _xml(tree: Tree) -> str:
    parts: list[str] = []
    for name, value in tree.items():
        for one in value if isinstance(value, list) else [value]:
            inner = _xml(one) if isinstance(one, dict) else escape(one)
            parts.append(f"<{name}>{inner}</{name}>")
    return "".join(parts)
