"""The bytes of one call to SES and of its answer, on a connection that is kept.

botocore makes, signs and reads the call; its ``before-send`` event lets us carry it. Its own way
through urllib3 costs more than half of a call's CPU, keeps a connection however long it was idle,
gives no bound for a whole answer and forgets whether a fault came before the request left
(docs/decisions/0015-transport.md). Where the environment names a proxy, botocore carries the call.
"""

import os
import select
import socket
import ssl
import time
import weakref
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import SplitResult, urlsplit

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    InvalidConfigError,
    ReadTimeoutError,
    SSLError,
)
from botocore.httpsession import get_cert_path
from botocore.utils import get_environ_proxies
from httptools import HttpParserError

from mail_service.errors import SettingsError
from mail_service.gateways.connecting import Unconnected, connect
from mail_service.gateways.http_answer import HttpAnswer

if TYPE_CHECKING:
    from mypy_boto3_sesv2 import SESV2Client

IDLE_SECONDS: Final = 10.0
"""How long a connection may have been idle. AWS closes after 20 s and more, address translators forget
in silence after 350, and a mail written to such a connection is in doubt; a handshake is cheap beside it."""

PIECE: Final = 1 << 16
SLACK: Final = 0.01
PORTS: Final = {"http": 80, "https": 443}


def install(
    client: "SESV2Client",
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
    _refuse_unusable(client.meta.endpoint_url)
    if get_environ_proxies(client.meta.endpoint_url):
        return
    # boto3's own order.
    bundle = ca_bundle or os.environ.get("REQUESTS_CA_BUNDLE") or get_cert_path(verify=True)  # noqa: TID251 - a setting of boto3's, which reads the environment itself
    try:
        tls = ssl.create_default_context(cafile=bundle)
    except OSError as problem:
        what = "expected the path of a file with certificates in PEM form"
        raise SettingsError({"AWS_CA_BUNDLE": what}) from problem
    transport = Transport(tls, connect_timeout, read_timeout, idle_seconds)
    # The stubs know only handlers that answer nothing; botocore takes what this event's handlers give.
    client.meta.events.register("before-send.sesv2.SendEmail", transport.carry)  # pyright: ignore[reportArgumentType]


class Transport:
    """Connections to SES, as many as there were calls at once. Safe to share between threads."""

    def __init__(
        self,
        tls: ssl.SSLContext,
        connect_timeout: float,
        read_timeout: float,
        idle_seconds: float,
    ) -> None:
        self._tls = tls
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._idle_seconds = idle_seconds
        self._idle: deque[_Connection] = deque()
        weakref.finalize(self, _close_all, self._idle)

    def carry(self, request: AWSPreparedRequest, **_: object) -> AWSResponse:
        """Write the request once and read its answer, within the time-out for reading.

        Raises InvalidConfigError, EndpointConnectionError, ConnectTimeoutError and SSLError only
        before a byte of the request is written, so that they prove that nothing left us;
        ReadTimeoutError and ConnectionClosedError from then on.
        """
        to = urlsplit(request.url)
        wire = _wire(request, to)
        connection = self._kept(to) or self._connect(request.url, to)
        try:
            answer = connection.exchange(wire, self._read_timeout)
        except BaseException as error:
            connection.close()
            if isinstance(error, TimeoutError):
                raise ReadTimeoutError(endpoint_url=request.url, error=error) from error
            if isinstance(error, OSError | HttpParserError):
                raise ConnectionClosedError(
                    error=error, request=request, endpoint_url=request.url
                ) from error
            raise
        if connection.reusable:
            self._keep(connection)
        else:
            connection.close()
        # Any mapping serves, whatever the stubs say.
        return AWSResponse(request.url, answer.status, answer.headers, answer)  # pyright: ignore[reportArgumentType]

    def _kept(self, to: SplitResult) -> "_Connection | None":
        """Give the connection that was idle for the shortest time, and close those of no use."""
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread took the last
                return None
            if connection.leads_to == to[:2] and connection.is_fresh(self._idle_seconds):
                return connection
            connection.close()
        return None

    def _connect(self, url: str, to: SplitResult) -> "_Connection":
        tls = self._tls if to.scheme == "https" else None
        try:
            sock = connect(to.hostname or "", _port(to), tls, self._connect_timeout)
        except ssl.SSLError as error:
            raise SSLError(endpoint_url=url, error=error) from Unconnected(error)
        except TimeoutError as error:
            raise ConnectTimeoutError(endpoint_url=url, error=error) from Unconnected(error)
        except (OSError, ValueError) as error:
            raise EndpointConnectionError(endpoint_url=url, error=error) from Unconnected(error)
        return _Connection(sock, to[:2])

    def _keep(self, connection: "_Connection") -> None:
        """Keep it for the next call, and close the one that was idle for longest if that is too long."""
        self._idle.append(connection)
        with suppress(IndexError):  # another thread took the last
            if self._idle[0].is_old(self._idle_seconds):
                self._idle.popleft().close()


class _Connection:
    def __init__(self, sock: socket.socket, leads_to: tuple[str, str]) -> None:
        self.leads_to = leads_to
        self.reusable = False
        self._sock = sock
        self._idle_since = 0.0
        self._news = select.poll()
        self._news.register(sock, select.POLLIN)

    def is_fresh(self, idle_seconds: float) -> bool:
        """Whether it serves another request: not idle for long, and nothing came unasked, nor a close."""
        return not self.is_old(idle_seconds) and not self._news.poll(0)

    def is_old(self, idle_seconds: float) -> bool:
        """Whether it was idle for so long that nobody may write to it."""
        return time.monotonic() - self._idle_since >= idle_seconds

    def exchange(self, wire: bytes, seconds: float) -> HttpAnswer:
        """Raises OSError, TimeoutError after ``seconds``, or HttpParserError for what is no HTTP."""
        self.reusable = False
        ends = time.monotonic() + seconds
        self._limit(seconds)
        self._sock.sendall(wire)
        answer = HttpAnswer()
        while not answer.whole:
            self._limit(ends - time.monotonic())
            answer.feed(self._sock.recv(PIECE))
        self._idle_since = time.monotonic()
        self.reusable = answer.keeps_connection
        return answer

    def close(self) -> None:
        self._sock.close()

    def _limit(self, seconds: float) -> None:
        """Bound the next wait, give or take ``SLACK``."""
        if seconds <= 0:
            raise TimeoutError
        # To set a time-out is a system call, and nearly every answer comes as the first thing waited for.
        if abs((self._sock.gettimeout() or 0.0) - seconds) > SLACK:
            self._sock.settimeout(seconds)


def _refuse_unusable(endpoint_url: str) -> None:
    try:
        to = urlsplit(endpoint_url)
        usable = bool(to.hostname) and _port(to) > 0
    except (KeyError, ValueError):
        usable = False
    if not usable:
        raise SettingsError({"AWS_ENDPOINT_URL": "expected an http or https address"})


def _port(to: SplitResult) -> int:
    return PORTS[to.scheme] if to.port is None else to.port


def _wire(request: AWSPreparedRequest, to: SplitResult) -> bytes:
    """Give the request's bytes. Raises InvalidConfigError for a header that would be two.

    Only credentials and the user agent come from outside: a key that was pasted with its line end.
    """
    host = to.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    if _port(to) != PORTS[to.scheme]:
        host = f"{host}:{to.port}"  # as it was signed
    target = f"{to.path or '/'}?{to.query}" if to.query else to.path or "/"
    lines = [f"{request.method} {target} HTTP/1.1", f"Host: {host}", "Accept-Encoding: identity"]
    for name, value in cast("Mapping[str, str | bytes]", request.headers).items():
        text = value if isinstance(value, str) else value.decode("latin-1")
        lines.append(f"{name}: {text}")
    head = "\r\n".join([*lines, "\r\n"]).encode("latin-1")
    if head.count(b"\n") != len(lines) + 1 or head.count(b"\r") != len(lines) + 1:
        raise InvalidConfigError(error_msg="AWS credentials or settings hold a line break")
    return head + cast("bytes", request.body)


def _close_all(connections: "deque[_Connection]") -> None:
    for connection in connections:
        connection.close()
