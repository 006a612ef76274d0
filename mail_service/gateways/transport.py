"""The bytes of one call to SES and of its answer, on a connection that is kept.

botocore writes the call and reads its answer; its ``before-call`` event lets us sign and carry it. Its
own way through urllib3 costs more than half of a call's CPU, keeps a connection however long it was
idle, gives no bound for a whole answer and forgets whether a fault came before the request left
(docs/decisions/0015-transport.md and 0018-we-sign-a-call.md). Where the environment names a proxy, or
a call is to be signed in another way than with Signature Version 4, botocore carries the call.
"""

import os
import re
import ssl
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from botocore.awsrequest import AWSResponse
from botocore.compat import get_current_datetime
from botocore.endpoint import convert_to_response_dict
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    InvalidConfigError,
    ReadTimeoutError,
    SSLError,
)
from botocore.httpsession import get_cert_path
from botocore.parsers import ResponseParserFactory
from botocore.utils import get_environ_proxies
from httptools import HttpParserError

from mail_service.errors import SettingsError
from mail_service.gateways import endpoint
from mail_service.gateways.connecting import Connection, Unconnected, connect
from mail_service.gateways.credentials import Credentials
from mail_service.gateways.endpoint import Endpoint
from mail_service.gateways.http_answer import HttpAnswer
from mail_service.gateways.signature import TIME_FORMAT, signed

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials
    from botocore.model import OperationModel
    from botocore.signers import RequestSigner
    from mypy_boto3_sesv2 import SESV2Client

UNPRINTABLE: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")

IDLE_SECONDS: Final = 10.0
"""How long a connection may have been idle. AWS closes after 20 s and more, address translators forget
in silence after 350, and a mail written to such a connection is in doubt; a handshake is cheap beside it."""


def install(
    client: "SESV2Client",
    parsers: ResponseParserFactory,
    ca_bundle: str | None,
    connect_timeout: float,
    read_timeout: float,
    *,
    idle_seconds: float = IDLE_SECONDS,
) -> None:
    """Carry the client's mails ourselves, unless a proxy is to carry them.

    ``ca_bundle`` is what AWS_CA_BUNDLE or the profile says. Raises SettingsError where it is of no use, or
    the endpoint is no address.
    """
    if not endpoint.is_usable(client.meta.endpoint_url):
        what = "expected http:// or https://, a host, perhaps a port and a path in plain ASCII; no query"
        raise SettingsError({"SES_ENDPOINT_URL, AWS_ENDPOINT_URL, AWS_ENDPOINT_URL_SESV2": what})
    if get_environ_proxies(client.meta.endpoint_url):
        # botocore will ask for them again, and must not wait where we did not.
        ours = Credentials(late_ones_serve=0)
        _answer_before_call(client, partial(_fetch_credentials, ours, connect_timeout))
        return
    # boto3's own order.
    bundle = ca_bundle or os.environ.get("REQUESTS_CA_BUNDLE") or get_cert_path(verify=True)  # noqa: TID251 - a setting of boto3's, which reads the environment itself
    try:
        tls = ssl.create_default_context(cafile=bundle)
    except OSError as problem:
        what = "expected the path of a file with certificates in PEM form"
        raise SettingsError({"AWS_CA_BUNDLE": what}) from problem
    transport = Transport(parsers, tls, connect_timeout, read_timeout, idle_seconds)
    _answer_before_call(client, transport.carry)


def _answer_before_call(client: "SESV2Client", handler: Callable[..., object]) -> None:
    # The stubs know only handlers that answer nothing; botocore takes what this event's handlers give.
    client.meta.events.register("before-call.sesv2.SendEmail", handler)  # pyright: ignore[reportArgumentType]


def _fetch_credentials(
    credentials: Credentials,
    seconds: float,
    *,
    request_signer: "RequestSigner",
    context: Mapping[str, Any],
    **_: object,
) -> None:
    """Leave the call to botocore, which will find the credentials fetched."""
    if _is_signed_plainly(request_signer, context):
        credentials.of(request_signer, until=time.monotonic() + seconds)


class Transport:
    """Connections to SES, as many as there were calls at once. Safe to share between threads."""

    def __init__(
        self,
        parsers: ResponseParserFactory,
        tls: ssl.SSLContext,
        connect_timeout: float,
        read_timeout: float,
        idle_seconds: float,
    ) -> None:
        self._parsers = parsers
        self._credentials = Credentials()
        self._tls = tls
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._idle_seconds = idle_seconds
        self._idle: deque[Connection] = deque()
        weakref.finalize(self, _close_all, self._idle)

    def carry(
        self,
        *,
        model: "OperationModel",
        params: Mapping[str, Any],
        request_signer: "RequestSigner",
        context: Mapping[str, Any],
        **_: object,
    ) -> tuple[AWSResponse, dict[str, Any]] | None:
        """Sign the request, write it once and give its answer, also as botocore parsed it.

        Whatever comes before the first byte, credentials that are renewed too, has the time-out for
        connecting in all; so a call that began within its lease does not write after it.

        None leaves the call to botocore. Raises NoCredentialsError, CredentialsNotFetched,
        InvalidConfigError, EndpointConnectionError, ConnectTimeoutError and SSLError only before a byte
        of the request is written, so that they prove that nothing left us; ReadTimeoutError and
        ConnectionClosedError from then on.
        """
        if not _is_signed_plainly(request_signer, context):
            return None
        until = time.monotonic() + self._connect_timeout
        url: str = params["url"]
        to = endpoint.read(url)
        credentials = self._credentials.of(request_signer, until=until)
        head = _head(to, params, request_signer, credentials)
        if head is None:
            raise InvalidConfigError(
                error_msg="AWS credentials or settings hold what no header can"
            )
        connection = self._kept(to) or self._connect(url, to, until)
        answer = self._exchange(connection, url, head + params["body"])
        # Any mapping serves as headers, and as shape also none, whatever the stubs say.
        response = AWSResponse(url, answer.status, answer.headers, answer)  # pyright: ignore[reportArgumentType]
        parser = self._parsers.create_parser(model.service_model.resolved_protocol)
        said = convert_to_response_dict(response, model)
        return response, parser.parse(said, model.output_shape)  # pyright: ignore[reportArgumentType]

    def _exchange(self, connection: Connection, url: str, wire: bytes) -> HttpAnswer:
        try:
            answer = connection.exchange(wire, self._read_timeout)
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise ReadTimeoutError(endpoint_url=url, error=error) from error
            if isinstance(error, OSError | HttpParserError):
                raise ConnectionClosedError(error=error, endpoint_url=url) from error
            raise
        if connection.reusable:
            self._keep(connection)
        else:
            connection.close()
        return answer

    def _kept(self, to: Endpoint) -> Connection | None:
        """Give the connection that was idle for the shortest time, and close those of no use."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took the last
                return None
            if connection.leads_to == to and connection.is_fresh(self._idle_seconds):
                return connection
            connection.close()
        return None

    def _connect(self, url: str, to: Endpoint, until: float) -> Connection:
        tls = self._tls if to.secure else None
        try:
            sock = connect(to.hostname, to.port, tls, until=until)
        except ssl.SSLError as error:
            raise SSLError(endpoint_url=url, error=error) from Unconnected(error)
        except TimeoutError as error:
            raise ConnectTimeoutError(endpoint_url=url, error=error) from Unconnected(error)
        except (OSError, ValueError) as error:
            raise EndpointConnectionError(endpoint_url=url, error=error) from Unconnected(error)
        return Connection(sock, to)

    def _keep(self, connection: Connection) -> None:
        """Keep it for the next call, and close the one that was idle for longest if that is too long."""
        self._idle.append(connection)
        with suppress(IndexError):  # another thread took the last
            if self._idle[0].is_old(self._idle_seconds):
                self._idle.popleft().close()


def _is_signed_plainly(signer: "RequestSigner", context: Mapping[str, Any]) -> bool:
    """Whether the call is to be signed with Signature Version 4, for the client's region and service."""
    version = context.get("auth_type") or signer.signature_version
    return version == "v4" and "signing" not in context


def _head(
    to: Endpoint,
    params: Mapping[str, Any],
    signer: "RequestSigner",
    credentials: "ReadOnlyCredentials",
) -> bytes | None:
    """Sign the request and give what stands before its body; None where no header can hold a value.

    Only credentials and the user agent come from outside: a key that was pasted with its line end.
    """
    body: bytes = params["body"]
    try:
        headers = signed(
            params["headers"],
            host=to.host,
            path=to.signed_path,
            body=body,
            at=get_current_datetime().strftime(TIME_FORMAT),
            credentials=credentials,
            region=signer.region_name,
            service=signer.signing_name,
        )
        headers |= {"Accept-Encoding": "identity", "Content-Length": str(len(body))}
        lines = [f"POST {to.path} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
        if any(UNPRINTABLE.search(line) for line in lines):
            return None
        return "\r\n".join([*lines, "\r\n"]).encode()
    except UnicodeEncodeError:
        return None  # and not raised from it: the error holds the credentials


def _close_all(connections: "deque[Connection]") -> None:
    for connection in connections:
        connection.close()
