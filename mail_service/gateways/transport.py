"""The bytes of one call to SES and of its answer, on a connection that is kept.

botocore writes the call and reads its answer; its ``before-call`` event lets us sign and carry it. Its
own way through urllib3 costs three quarters of a call's CPU, keeps a connection however long it was
idle, gives no bound for a whole answer and forgets whether a fault came before the request left
(docs/decisions/0015-transport.md and 0018-we-sign-a-call.md). Where the environment names a proxy, or
a call is to be signed in another way than with Signature Version 4, botocore carries the call.
"""

import os
import ssl
import weakref
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from botocore.awsrequest import AWSResponse
from botocore.compat import get_current_datetime
from botocore.endpoint import convert_to_response_dict
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    InvalidConfigError,
    NoCredentialsError,
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
from mail_service.gateways.endpoint import Endpoint
from mail_service.gateways.http_answer import HttpAnswer
from mail_service.gateways.signature import TIME_FORMAT, signed

if TYPE_CHECKING:
    from botocore.credentials import ReadOnlyCredentials
    from botocore.model import OperationModel
    from botocore.signers import RequestSigner
    from mypy_boto3_sesv2 import SESV2Client

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
        raise SettingsError({"AWS_ENDPOINT_URL": "expected an http or https address"})
    if get_environ_proxies(client.meta.endpoint_url):
        return
    # boto3's own order.
    bundle = ca_bundle or os.environ.get("REQUESTS_CA_BUNDLE") or get_cert_path(verify=True)  # noqa: TID251 - a setting of boto3's, which reads the environment itself
    try:
        tls = ssl.create_default_context(cafile=bundle)
    except OSError as problem:
        what = "expected the path of a file with certificates in PEM form"
        raise SettingsError({"AWS_CA_BUNDLE": what}) from problem
    transport = Transport(parsers, tls, connect_timeout, read_timeout, idle_seconds)
    # The stubs know only handlers that answer nothing; botocore takes what this event's handlers give.
    client.meta.events.register("before-call.sesv2.SendEmail", transport.carry)  # pyright: ignore[reportArgumentType]


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

        None leaves the call to botocore. Raises NoCredentialsError, InvalidConfigError,
        EndpointConnectionError, ConnectTimeoutError and SSLError only before a byte of the request is
        written, so that they prove that nothing left us; ReadTimeoutError and ConnectionClosedError
        from then on.
        """
        url: str = params["url"]
        to = endpoint.read(url)
        version = context.get("auth_type") or request_signer.signature_version
        if version != "v4" or "signing" in context:
            return None
        answer = self._exchange(url, to, _wire(to, params, request_signer))
        # Any mapping serves as headers, and as shape also none, whatever the stubs say.
        response = AWSResponse(url, answer.status, answer.headers, answer)  # pyright: ignore[reportArgumentType]
        parser = self._parsers.create_parser(model.service_model.resolved_protocol)
        said = convert_to_response_dict(response, model)
        return response, parser.parse(said, model.output_shape)  # pyright: ignore[reportArgumentType]

    def _exchange(self, url: str, to: Endpoint, wire: bytes) -> HttpAnswer:
        connection = self._kept(to) or self._connect(url, to)
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

    def _connect(self, url: str, to: Endpoint) -> Connection:
        tls = self._tls if to.secure else None
        try:
            sock = connect(to.hostname, to.port, tls, self._connect_timeout)
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


def _wire(to: Endpoint, params: Mapping[str, Any], signer: "RequestSigner") -> bytes:
    """Sign the request and give its bytes.

    Raises NoCredentialsError, and InvalidConfigError for a header that would be two or is no text. Only
    credentials and the user agent come from outside: a key that was pasted with its line end.
    """
    # Fetched anew where they are about to expire.
    auth = signer.get_auth_instance(signer.signing_name, signer.region_name)
    credentials: ReadOnlyCredentials | None = auth.credentials
    if credentials is None:
        raise NoCredentialsError
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
        lines = [f"{name}: {value}" for name, value in headers.items()]
        first = f"POST {to.path} HTTP/1.1"
        length = f"Content-Length: {len(body)}"
        head = "\r\n".join([first, *lines, "Accept-Encoding: identity", length, "\r\n"]).encode()
    except UnicodeEncodeError as error:
        raise InvalidConfigError(error_msg="AWS credentials or settings are no text") from error
    if head.count(b"\n") != len(lines) + 4 or head.count(b"\r") != len(lines) + 4:
        raise InvalidConfigError(error_msg="AWS credentials or settings hold a line break")
    return head + body


def _close_all(connections: "deque[Connection]") -> None:
    for connection in connections:
        connection.close()
