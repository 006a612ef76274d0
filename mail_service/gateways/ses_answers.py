"""What boto3 gave or raised for a call, as an :class:`Answer`: described, not yet judged."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from types import TracebackType
from typing import Final, cast

from botocore.exceptions import ClientError, SSLError

from mail_service.domain.answers import SEND_OPERATION, Answer
from mail_service.gateways.connecting import Unconnected
from mail_service.gateways.credentials import CredentialsNotFetched

FETCH_CREDENTIALS: Final = "fetch credentials"
"""Instead of the operation of another service, which a fault before its answer does not name."""


def of_response(response: object, sender: str, recipients: tuple[str, ...]) -> Answer:
    """Describe what was returned without believing that any part of it is there."""
    return Answer(
        status=_status_of(response),
        message_id=_text(_mapping(response).get("MessageId")) or None,
        sender=sender,
        recipients=recipients,
    )


def of_error(error: Exception, sender: str, recipients: tuple[str, ...]) -> Answer:
    """Describe what was raised without believing that any part of it is there.

    A ClientError may come without "Error" (boto/botocore#1277), and HTTPClientError has a
    ``response`` that is None.
    """
    if isinstance(error, CredentialsNotFetched) and isinstance(error.__cause__, Exception):
        cause = of_error(error.__cause__, sender, recipients)
        return replace(cause, operation=FETCH_CREDENTIALS)
    fault = tuple(f"{kind.__module__}.{kind.__qualname__}" for kind in type(error).__mro__)
    if not isinstance(error, ClientError):
        return Answer(
            fault=fault,
            failed_connecting=_failed_connecting(error),
            text=str(error) if isinstance(error, SSLError) else "",
            sender=sender,
            recipients=recipients,
        )
    response = _mapping(getattr(error, "response", None))
    said = _mapping(response.get("Error"))
    headers = _mapping(_mapping(response.get("ResponseMetadata")).get("HTTPHeaders"))
    code = _text(said.get("Code")) or None
    return Answer(
        fault=fault,
        operation=_text(getattr(error, "operation_name", None)) or SEND_OPERATION,
        status=_status_of(response),
        code=code,
        text=_text(said.get("Message")),
        from_ses=_is_aws_form(code, headers),
        sender=sender,
        recipients=recipients,
    )


def _is_aws_form(code: str | None, headers: Mapping[str, object]) -> bool:
    """Whether an error has the form of AWS: a named type, in a header or in a JSON body.

    botocore 1.44.8 gives the status as the code where the body names none, and takes any body as
    the message. A JSON page of a proxy without a code is no answer of SES.
    """
    if "x-amzn-errortype" in headers:
        return True
    kind = _text(headers.get("content-type"))
    return code is not None and not code.isdigit() and ("json" in kind or not headers)


def _failed_connecting(error: Exception) -> bool | None:
    """Whether the connection was still being made, by our own word or urllib3's traceback.

    None where neither shows it. botocore raises ProxyConnectionError and SSLError for
    faults before and after the request alike (seen with 1.44.8 and urllib3 2.8). A name that
    urllib3 changes one day turns a hold into a doubt, never a doubt into a second mail.
    """
    causes = list(_causes(error))
    if any(isinstance(cause, Unconnected) for cause in causes):
        return True
    frames = [name for cause in causes for name in _functions(cause.__traceback__)]
    return "connect" in frames if "urlopen" in frames else None


def _causes(error: BaseException) -> Iterator[BaseException]:
    seen = {id(error)}
    waiting: list[BaseException | None] = [error.__cause__, error.__context__]
    while waiting:
        cause = waiting.pop()
        if cause is not None and id(cause) not in seen:
            seen.add(id(cause))
            waiting += [cause.__cause__, cause.__context__]
            yield cause


def _functions(traceback: TracebackType | None) -> Iterator[str]:
    while traceback is not None:
        yield traceback.tb_frame.f_code.co_name
        traceback = traceback.tb_next


def _status_of(response: object) -> int | None:
    status = _mapping(_mapping(response).get("ResponseMetadata")).get("HTTPStatusCode")
    return status if isinstance(status, int) and not isinstance(status, bool) else None


def _mapping(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
